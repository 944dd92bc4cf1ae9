/* Loaded into a program by LD_PRELOAD: a file system that answers slowly. Opening or looking up a file below the directory in
   SLOW_PLACE takes SLOW_MS milliseconds; a file called as SLOW_HANGS says never opens. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void wait_for(const char *path, int opened) {
    const char *place = getenv("SLOW_PLACE"), *ms = getenv("SLOW_MS"), *hangs = getenv("SLOW_HANGS"), *name = strrchr(path, '/');
    char here[PATH_MAX];
    if (!place || (*path != '/' && !getcwd(here, sizeof here)))
        return;
    if (strncmp(*path == '/' ? path : here, place, strlen(place)))
        return;
    if (opened && hangs && !strcmp(name ? name + 1 : path, hangs))
        for (;;)
            pause();
    if (ms)
        usleep(1000 * atoi(ms));
}

#define OPEN(name)                                                                    \
    int name(const char *path, int flags, ...) {                                      \
        static int (*real)(const char *, int, ...);                                   \
        va_list rest;                                                                 \
        va_start(rest, flags);                                                        \
        int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, int) : 0;           \
        va_end(rest);                                                                 \
        if (!real)                                                                    \
            real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);          \
        wait_for(path, 1);                                                            \
        return real(path, flags, mode);                                               \
    }
OPEN(open)
OPEN(open64)

#define LOOK(name, type)                                                              \
    int name(const char *path, type *found) {                                         \
        static int (*real)(const char *, type *);                                     \
        if (!real)                                                                    \
            real = (int (*)(const char *, type *))dlsym(RTLD_NEXT, #name);            \
        wait_for(path, 0);                                                            \
        return real(path, found);                                                     \
    }
LOOK(lstat, struct stat)
LOOK(lstat64, struct stat64)
