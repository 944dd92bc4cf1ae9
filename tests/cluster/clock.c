/* Loaded into a program by LD_PRELOAD: its clock is ahead by the seconds in /run/clock-ahead, else by CLOCK_AHEAD,
   by default a minute, as on a node without a time service. Loaded into every program of a node (/etc/ld.so.preload),
   it leaves those of the system alone, and those for which neither is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    char text[32] = "";
    const char *set = getenv("CLOCK_AHEAD"), *loaded = getenv("LD_PRELOAD");
    int file = getuid() ? open("/run/clock-ahead", O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        ssize_t count = read(file, text, sizeof text - 1);
        close(file);
        return count > 0 ? atol(text) : 0;
    }
    return set ? atol(set) : loaded && *loaded ? 60 : 0;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, out);
    if (!result && clock == CLOCK_REALTIME)
        out->tv_sec += ahead();
    return result;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) { /* this is what bash asks */
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *out) { /* and this, for $SECONDS and %(%s)T */
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return (time_t)-1;
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
