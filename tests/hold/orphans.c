/*
 * A payload that leaves one process of every kind behind, and the census that tells which of them live.
 *
 *   orphans root TAG KIND...             the root: starts the kinds, and exits 0 on SIGUSR1
 *   orphans KIND TAG                     one of them; TAG, a number of this run alone, tells it from anybody else's
 *   orphans census TAG GROUP OUT [FILE]  writes to OUT the monotonic nanoseconds at which it began (with FILE: at
 *                                        which FILE was removed or replaced), then a line for each kind then alive in
 *                                        the cgroup directory GROUP
 *
 * In C because a link of a chain has to live for 20 ms only, and because the next job has to look with its very
 * first instructions. Nothing here depends on the environment; each process ends by itself after LIFE seconds.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIFE = 180, LINK_US = 20000, POLL_US = 300 };

static const char *tag;

static long long now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void become(const char *kind, char *const environment[])
{
    char *argv[] = {"orphans", (char *)kind, (char *)tag, NULL};
    if (environment != environ)
        argv[0] = "kworker/u8:3"; /* no environment and another name */
    execve("/proc/self/exe", argv, environment);
    _exit(127);
}

/* The classic daemon: a session of its own, no parent, no descriptor. */
static void daemonize(const char *kind, char *const environment[])
{
    setsid();
    if (fork() > 0)
        _exit(0);
    close_range(0, ~0U, 0);
    become(kind, environment);
}

static void start(const char *kind)
{
    char *nothing[] = {NULL};
    if (fork() > 0)
        return;
    if (!strcmp(kind, "daemon"))
        daemonize(kind, environ);
    if (!strcmp(kind, "disguised"))
        daemonize(kind, nothing);
    if (!strcmp(kind, "setsid") || !strcmp(kind, "chainsid"))
        setsid();
    if (!strcmp(kind, "ignoring"))
        for (const int *ignored = (int[]){SIGTERM, SIGINT, SIGHUP, 0}; *ignored; ignored++)
            signal(*ignored, SIG_IGN);
    become(kind, environ);
}

/* Every link is another process, gone before most scans have read its name. */
static void chain(int own_sessions, long long until)
{
    while (now_ns() < until) {
        usleep(LINK_US);
        pid_t next = fork();
        if (next > 0)
            _exit(0);
        if (next == 0 && own_sessions)
            setsid();
    }
}

static void leave(int signum)
{
    (void)signum;
    _exit(0);
}

static void root(char **kinds)
{
    signal(SIGUSR1, leave);
    for (; *kinds; kinds++)
        start(*kinds);
    alarm(LIFE);
    for (;;)
        if (wait(NULL) < 0)
            pause();
}

static void count_process(const char *pid, FILE *out)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return;
    ssize_t got = read(fd, line, sizeof line - 1);
    close(fd);
    const char *kind = line + strlen(line) + 1, *its_tag = kind + strlen(kind) + 1;
    if (got > 0 && its_tag < line + got && !strcmp(its_tag, tag) && strcmp(kind, "census"))
        fprintf(out, "%s\n", kind);
}

static void count_group(const char *group, FILE *out)
{
    char path[4096], pid[32];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *procs = fopen(path, "r");
    while (procs && fscanf(procs, "%31s", pid) == 1)
        count_process(pid, out);
    if (procs)
        fclose(procs);
    DIR *below = opendir(group);
    for (struct dirent *entry; below && (entry = readdir(below));)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", group, entry->d_name);
            count_group(path, out);
        }
    if (below)
        closedir(below);
}

static int census(const char *group, const char *result, const char *watched)
{
    struct stat first, current;
    char aside[4096];
    long long at = now_ns();
    /* Held open, so that its inode number cannot become another file's. */
    if (watched && fstat(open(watched, O_RDONLY | O_CLOEXEC), &first) < 0)
        return 1;
    snprintf(aside, sizeof aside, "%s.new", result); /* there as soon as somebody watches */
    FILE *out = fopen(aside, "w");
    if (!out)
        return 1;
    while (watched && !stat(watched, &current) && current.st_ino == first.st_ino) {
        usleep(POLL_US);
        at = now_ns();
    }
    fprintf(out, "%lld\n", at);
    count_group(group, out);
    return fclose(out) || rename(aside, result);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *kind = argv[1];
    tag = argv[2];
    if (!strcmp(kind, "root"))
        root(argv + 3);
    if (!strcmp(kind, "census"))
        return argc < 5 ? 2 : census(argv[3], argv[4], argc > 5 ? argv[5] : NULL);
    prctl(PR_SET_NAME, strcmp(kind, "disguised") ? kind : argv[0]);
    if (!strncmp(kind, "chain", strlen("chain")))
        chain(!strcmp(kind, "chainsid"), now_ns() + LIFE * 1000000000LL);
    sleep(LIFE);
    return 0;
}
