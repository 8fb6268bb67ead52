/* sleepers PROCESSES DESCRIPTORS: so many processes that sleep, each with so many descriptors of the kinds that
 * services have: files, pipes, sockets, event descriptors. Prints the first pid of each, a line, then "ready".
 *
 * They are children that only this process reaps, so that a pid stays theirs until it has ended them: when its
 * standard input ends. Should it be killed, the kernel ends them (PR_SET_PDEATHSIG).
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int opened(int number) {
    int pair[2];
    switch (number % 6) {
    case 0: return open("/dev/null", O_RDWR);
    case 1: return open("/proc/self/exe", O_RDONLY);
    case 2: return socket(AF_UNIX, SOCK_STREAM, 0);
    case 3: return eventfd(0, 0);
    case 4: return epoll_create1(0);
    default:
        if (pipe(pair) != 0) return -1;
        close(pair[1]);
        return pair[0];
    }
}

static void nap(int descriptors) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int number = 0; number < 3; number++) { /* as a service's: nothing of whoever started it */
        close(number);
        if (opened(0) != number) _exit(1);
    }
    for (int number = 3; number < descriptors; number++)
        if (opened(number) < 0) _exit(1);
    for (;;) pause();
}

int main(int count, char **words) {
    if (count != 3) return 2;
    int processes = atoi(words[1]), descriptors = atoi(words[2]);
    pid_t *pids = calloc(processes, sizeof *pids);
    for (int number = 0; number < processes; number++) {
        if ((pids[number] = fork()) == 0) nap(descriptors);
        if (pids[number] < 0) return 1;
        printf("%d\n", pids[number]);
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) continue;
    for (int number = 0; number < processes; number++) kill(pids[number], SIGKILL);
    while (wait(NULL) > 0) continue;
    return 0;
}
