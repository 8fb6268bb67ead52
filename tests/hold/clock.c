/* Preloaded: the wall clock is ahead by the seconds that the file $WALL_CLOCK_OFFSET holds at this moment.
   The monotonic clocks are the kernel's. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) {
        FILE *file = fopen(getenv("WALL_CLOCK_OFFSET"), "re");
        long offset = 0;
        if (file != NULL) {
            if (fscanf(file, "%ld", &offset) == 1)
                now->tv_sec += offset;
            fclose(file);
        }
    }
    return result;
}
