/*
 * Preload shim: OpenMP runtimes see the machine that FAKE_ONLINE (how many CPUs) and FAKE_MASK (which of them
 * this process may use, such as 0-47:2,96) describe. Bindings are remembered for each thread, and passed on
 * to the threads that it starts, but never reach the kernel: what a runtime asked for can be read back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES 512

typedef struct {
    int set;
    unsigned char bits[BYTES];
} Mask;

typedef struct {
    void *(*body)(void *);
    void *argument;
    Mask mask;
} Start;

static __thread Mask own;     /* this thread's mask, once bound */
static __thread Mask pending; /* for the next thread, from its attributes */

static int online(void)
{
    const char *text = getenv("FAKE_ONLINE");
    return text ? atoi(text) : 1;
}

static Mask granted(void)
{
    Mask mask = {0};
    const char *text = getenv("FAKE_MASK");
    char *end = (char *)(text ? text : "0");
    while (*end) {
        long first = strtol(end, &end, 10), last = first, step = 1;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (*end == ':')
            step = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < 8L * BYTES; cpu += step)
            mask.bits[cpu / 8] |= (unsigned char)(1 << (cpu % 8));
        if (*end == ',')
            end++;
    }
    return mask;
}

static size_t kernel_size(void)
{
    size_t size = (size_t)((online() + 63) / 64) * 8;
    return size < 128 ? 128 : size;
}

static void copy_out(size_t size, void *to)
{
    Mask mask = own.set ? own : granted();
    memset(to, 0, size);
    memcpy(to, mask.bits, size < BYTES ? size : BYTES);
}

static void copy_in(Mask *mask, size_t size, const void *from)
{
    memset(mask->bits, 0, BYTES);
    memcpy(mask->bits, from, size < BYTES ? size : BYTES);
    mask->set = 1;
}

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_sched_getaffinity) {
        /* As the kernel does: too small a buffer is an error, and the size filled is returned. */
        if ((size_t)a[1] < kernel_size()) {
            errno = EINVAL;
            return -1;
        }
        if (a[2])
            copy_out(kernel_size(), (void *)a[2]);
        return (long)kernel_size();
    }
    if (number == SYS_sched_setaffinity) {
        if (!a[2]) {
            errno = EFAULT;
            return -1;
        }
        copy_in(&own, (size_t)a[1], (const void *)a[2]);
        return 0;
    }
    if (!real)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask)
{
    (void)pid;
    if (size < kernel_size()) { /* as the kernel: callers then try a larger buffer */
        errno = EINVAL;
        return -1;
    }
    copy_out(size, mask);
    return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
    (void)pid;
    copy_in(&own, size, mask);
    return 0;
}

int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *mask)
{
    (void)thread;
    copy_out(size, mask);
    return 0;
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *mask)
{
    (void)thread;
    copy_in(&own, size, mask);
    return 0;
}

int pthread_attr_setaffinity_np(pthread_attr_t *attributes, size_t size, const cpu_set_t *mask)
{
    (void)attributes;
    copy_in(&pending, size, mask);
    return 0;
}

long sysconf(int name)
{
    static long (*real)(int);
    if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF)
        return online();
    if (!real)
        real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return real(name);
}

static void *run(void *argument)
{
    Start start = *(Start *)argument;
    free(argument);
    own = start.mask;
    return start.body(start.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    Start *start = malloc(sizeof *start);
    if (!real)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    if (!start)
        return ENOMEM;
    start->body = body;
    start->argument = argument;
    start->mask = pending.set ? pending : own;
    pending.set = 0;
    return real(thread, attributes, run, start);
}
