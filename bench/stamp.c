/* One job of the hand-over bench: says when its first and its last instruction ran.
   stamp LOG NUMBER MILLISECONDS appends "S NUMBER ns" and "E NUMBER ns" (CLOCK_MONOTONIC) to LOG. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void say(int fd, char what, const char *number)
{
    struct timespec at;
    char line[80];
    clock_gettime(CLOCK_MONOTONIC, &at);
    int length = snprintf(line, sizeof line, "%c %s %lld\n", what, number, at.tv_sec * 1000000000LL + at.tv_nsec);
    if (write(fd, line, length) != length)
        _exit(3);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return 3;
    say(fd, 'S', argv[2]);
    usleep(atoi(argv[3]) * 1000);
    say(fd, 'E', argv[2]);
    _exit(0);
}
