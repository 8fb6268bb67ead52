/*
 * The payloads of the chaos runs, which bear witness to each other.
 *
 *   payload root RUN LOG WITNESS MS STATUS KIND...   starts the kinds and exits with STATUS after MS (-1: never)
 *   payload KIND RUN                                 one of them
 *
 * The root's first instructions are the census: whether another payload still holds the kernel's lock on WITNESS
 * (inherited by everything that keeps its descriptors), and every process of this very program with another RUN. It
 * is appended to LOG as one line: RUN, pid, CLOCK_MONOTONIC in ns, 1 if the lock was free, PID:KIND:RUN of each.
 * Nothing here depends on the environment, which a kind may empty; each process ends by itself after LIFE seconds.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { LIFE = 100, LINK_MS = 10, MOST = 3000 };

static const char *run;

static long long now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void nap(long ms)
{
    long long until = now_ns() + ms * 1000000LL;
    while (ms < 0 || now_ns() < until)
        usleep(ms < 0 ? 1000000 : (until - now_ns()) / 1000 + 1);
}

static int linked_to(const char *pid, char *where, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/exe", pid);
    ssize_t got = readlink(path, where, size - 1);
    where[got > 0 ? got : 0] = 0;
    return got > 0;
}

static size_t count_process(const char *pid, char *line)
{
    char path[64], words[512] = "";
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, words, sizeof words - 1);
    close(fd);
    const char *kind = words + strlen(words) + 1, *its = kind + strlen(kind) + 1;
    if (got <= 0 || its >= words + got || !strcmp(its, run))
        return 0;
    return sprintf(line, " %s:%.20s:%.100s", pid, words + strlen(words) + 1, its);
}

static void testify(const char *log, const char *witness)
{
    static char line[4096], own[2048], other[2048];
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit); /* the hold's disk may be full, not ours */
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    int is_free = !flock(open(witness, O_RDWR | O_CREAT, 0600), LOCK_EX | LOCK_NB);
    size_t at = sprintf(line, "%s %d %lld %d", run, getpid(), now_ns(), is_free);
    linked_to("self", own, sizeof own);
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; at < MOST && (entry = readdir(proc));)
        if (entry->d_name[0] > '0' && entry->d_name[0] <= '9' && linked_to(entry->d_name, other, sizeof other))
            at += strcmp(own, other) ? 0 : count_process(entry->d_name, line + at);
    closedir(proc);
    line[at++] = '\n';
    int fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (write(fd, line, at) < 0)
        _exit(99);
    close(fd);
}

static void become(const char *kind, char *const environment[])
{
    char *argv[] = {"payload", (char *)kind, (char *)run, NULL};
    execve("/proc/self/exe", argv, environment);
    _exit(127);
}

static void nest(void)
{
    char own[2048];
    linked_to("self", own, sizeof own);
    execlp(getenv("CHAOS_PYTHON"), "holdtop", "-m", "holdtop", "run", "--state-dir", getenv("HOLDTOP_STATE_DIR"),
           "--grace", "0.1", "--", own, "plain", run, NULL);
    _exit(127);
}

static void start(const char *kind)
{
    char *nothing[] = {NULL};
    if (fork() > 0)
        return;
    if (!strcmp(kind, "nested"))
        nest();
    if (!strcmp(kind, "daemon") || !strcmp(kind, "bare")) {
        setsid();
        if (fork() > 0)
            _exit(0);
        close_range(0, ~0U, 0);
        become(kind, *kind == 'b' ? nothing : environ);
    }
    if (!strcmp(kind, "setsid") || !strcmp(kind, "chainsid"))
        setsid();
    become(kind, environ);
}

static void deafen(void)
{
    for (const int *ignored = (int[]){SIGTERM, SIGINT, SIGHUP, 0}; *ignored; ignored++)
        signal(*ignored, SIG_IGN);
}

/* Every link is another process, gone before most scans have read its name. */
static void chain(int own_sessions)
{
    for (int links = LIFE * 1000 / LINK_MS; links; links--) {
        nap(LINK_MS);
        pid_t next = fork();
        if (next > 0)
            _exit(0);
        if (next == 0 && own_sessions)
            setsid();
    }
    _exit(0);
}

static int be_root(char **words)
{
    testify(words[0], words[1]);
    for (char **kind = words + 4; *kind; kind++)
        if (!strcmp(*kind, "tied"))
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        else if (!strcmp(*kind, "deaf"))
            deafen();
        else if (!strcmp(*kind, "suspended"))
            raise(SIGSTOP);
        else
            start(*kind);
    nap(atol(words[2]));
    return atoi(words[3]);
}

int main(int argc, char **argv)
{
    alarm(LIFE);
    if (argc < 3)
        return 2;
    run = argv[2];
    if (!strcmp(argv[1], "root"))
        return argc < 7 ? 2 : be_root(argv + 3);
    if (!strncmp(argv[1], "chain", 5))
        chain(!strcmp(argv[1], "chainsid"));
    if (!strcmp(argv[1], "ignoring"))
        deafen();
    if (!strcmp(argv[1], "stopper"))
        raise(SIGSTOP);
    nap(-1);
    return 0;
}
