/* A tree of processes that hear no TERM: tree SIZE. Each has up to four children, in groups and sessions of the root's. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int size = argc == 2 ? atoi(argv[1]) : 0;
    signal(SIGTERM, SIG_IGN);
    for (int left = size - 1; size > 1 && left > 0;) {
        /* The children share what is left as evenly as four can. */
        int below[4], children = left < 4 ? left : 4, mine = 0;
        for (int i = 0; i < children; i++)
            below[i] = left / children + (i < left % children);
        for (int i = 0; i < children && !mine; i++)
            if (fork() == 0)
                mine = below[i];
        left = mine - 1;
        if (!mine)
            break;
    }
    for (;;)
        pause();
}
