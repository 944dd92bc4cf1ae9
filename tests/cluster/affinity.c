/* Loaded into every program on a compute node (/etc/ld.so.preload): CPU masks over the CPUs that the node claims.
 *
 * The real machine may have two CPUs and the node 128, so masks are kept in files and the kernel is never asked.
 * /run/affinity/cpus holds the number of CPUs (no file: this host is real, do nothing); /run/affinity/TID.STARTED
 * holds a thread's mask: the time of its start tells it from a later thread of the same id. As with the kernel's, a mask is inherited by threads and children, survives
 * exec, and can be read and set from other processes. Cpus_allowed_list of /proc/self/status and /proc/PID/status is as it;
 * statically linked programs see none.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES 128 /* 1,024 CPUs, as cpu_set_t */

static int cpus;
static unsigned char all[BYTES];

static ssize_t slurp(const char *path, void *out, size_t size) {
    int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC); /* our own `open` would come here again */
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, out, size);
    close(fd);
    return got;
}

static pid_t self(void) { return (pid_t)syscall(SYS_gettid); }

/* Field 22 of /proc/TID/stat tells a thread from a later one of the same id; 0 when there is no such thread. */
static unsigned long long start_time(pid_t tid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    ssize_t got = slurp(path, text, sizeof text - 1);
    if (got <= 0)
        return 0;
    text[got] = 0;
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static void path_of(char path[64], pid_t tid) {
    snprintf(path, 64, "/run/affinity/%d.%llu", tid, start_time(tid));
}

static int load(pid_t tid, unsigned char *mask) {
    char path[64];
    path_of(path, tid);
    return slurp(path, mask, BYTES) == BYTES;
}

/* Write a record at once. `first`: only if there is none yet, for a parent may have set its child's mask
 * before the child came to writing down what it inherited; both may do so at the same time. */
static void store(pid_t tid, const unsigned char *mask, int first) {
    char path[64], fresh[80];
    path_of(path, tid);
    snprintf(fresh, sizeof fresh, "%s.%d", path, self());
    int fd = open(fresh, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    fchmod(fd, 0666);
    int written = write(fd, mask, BYTES) == BYTES;
    close(fd);
    if (written && first)
        link(fresh, path); /* fails when there is one */
    else if (written)
        rename(fresh, path);
    unlink(fresh);
}

/* A number out of /proc/TID/status, such as "\nTgid:". */
static pid_t status(pid_t tid, const char *key) {
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    ssize_t got = slurp(path, text, sizeof text - 1);
    if (got <= 0)
        return 0;
    text[got] = 0;
    char *at = strstr(text, key);
    return at ? (pid_t)atoi(at + strlen(key)) : 0;
}

/* A thread without a record has its process's mask; a process without one has its parent's. */
static void find(pid_t tid, unsigned char *mask) {
    for (int steps = 0; tid > 1 && steps < 64; steps++) {
        if (load(tid, mask))
            return;
        pid_t group = status(tid, "\nTgid:");
        tid = group != tid ? group : status(tid, "\nPPid:");
    }
    memcpy(mask, all, BYTES);
}

static int get(pid_t tid, size_t size, void *mask) {
    unsigned char found[BYTES];
    if (mask == NULL) { /* Intel's OpenMP probes the kernel so */
        errno = EFAULT;
        return -1;
    }
    if (size * 8 < (size_t)cpus || size % sizeof(long)) {
        errno = EINVAL;
        return -1;
    }
    if (tid && !start_time(tid)) {
        errno = ESRCH;
        return -1;
    }
    find(tid ? tid : self(), found);
    memset(mask, 0, size);
    memcpy(mask, found, size < BYTES ? size : BYTES);
    return 0;
}

/* As in the kernel: CPUs that are not there are dropped, and a mask of none of ours is refused. */
static int clip(size_t size, const void *mask, unsigned char *out) {
    int any = 0;
    memset(out, 0, BYTES);
    memcpy(out, mask, size < BYTES ? size : BYTES);
    for (int i = 0; i < BYTES; i++)
        any |= out[i] &= all[i];
    return any;
}

static int set(pid_t tid, size_t size, const void *mask) {
    unsigned char wanted[BYTES];
    if (mask == NULL) {
        errno = EFAULT;
        return -1;
    }
    if (!clip(size, mask, wanted)) {
        errno = EINVAL;
        return -1;
    }
    if (tid && !start_time(tid)) {
        errno = ESRCH;
        return -1;
    }
    store(tid ? tid : self(), wanted, 0);
    return 0;
}

static pid_t forking;
static unsigned char forked[BYTES];

static void before_fork(void) { forking = self(), find(forking, forked); }
static void in_child(void) { store(self(), forked, 1); }

__attribute__((constructor)) static void begin(void) {
    char text[16] = "";
    unsigned char mask[BYTES];
    if (slurp("/run/affinity/cpus", text, sizeof text - 1) <= 0)
        return;
    cpus = atoi(text);
    for (int i = 0; i < cpus && i < BYTES * 8; i++)
        all[i / 8] |= (unsigned char)(1 << i % 8);
    /* started by vfork or posix_spawn: what the parent has now is what it had then */
    find(self(), mask);
    store(self(), mask, 1);
    pthread_atfork(before_fork, NULL, in_child);
}

#define REAL(name) (real ? real : (real = (__typeof__(real))dlsym(RTLD_NEXT, name)))

int sched_getaffinity(pid_t tid, size_t size, cpu_set_t *mask) {
    static int (*real)(pid_t, size_t, cpu_set_t *);
    return cpus ? get(tid, size, mask) : REAL("sched_getaffinity")(tid, size, mask);
}

int sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *mask) {
    static int (*real)(pid_t, size_t, const cpu_set_t *);
    return cpus ? set(tid, size, mask) : REAL("sched_setaffinity")(tid, size, mask);
}

/* glibc has no public way from pthread_t to the thread's id, so only a thread's own mask can be asked for. */
int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *mask) {
    static int (*real)(pthread_t, size_t, cpu_set_t *);
    if (!cpus || !pthread_equal(thread, pthread_self()))
        return REAL("pthread_getaffinity_np")(thread, size, mask);
    return get(0, size, mask) ? errno : 0;
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *mask) {
    static int (*real)(pthread_t, size_t, const cpu_set_t *);
    if (!cpus || !pthread_equal(thread, pthread_self()))
        return REAL("pthread_setaffinity_np")(thread, size, mask);
    return set(0, size, mask) ? errno : 0;
}

long syscall(long number, ...) {
    static long (*real)(long, ...);
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (cpus && number == SYS_sched_setaffinity)
        return set((pid_t)a[0], (size_t)a[1], (void *)a[2]);
    if (cpus && number == SYS_sched_getaffinity)
        return get((pid_t)a[0], (size_t)a[1], (void *)a[2]) ? -1 : (a[1] < BYTES ? a[1] : BYTES);
    return REAL("syscall")(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* What bash and others read in /proc/PID/status, with the mask of ours in it; -1 if it cannot be made. */
static int status_of(pid_t tid, int fd) {
    static const char key[] = "\nCpus_allowed_list:\t";
    char text[8192];
    unsigned char mask[BYTES];
    ssize_t got = read(fd, text, sizeof text - 1);
    if (got <= 0)
        return -1;
    text[got] = 0;
    char *at = strstr(text, key), *rest = at ? strchr(at + 1, '\n') : NULL;
    int copy = rest ? memfd_create("status", MFD_CLOEXEC) : -1;
    if (copy < 0)
        return -1;
    find(tid, mask);
    dprintf(copy, "%.*s", (int)(at - text) + (int)sizeof key - 1, text);
    const char *between = "";
    for (int i = 0; i < cpus; i++) {
        int last = i;
        if (!(mask[i / 8] >> i % 8 & 1))
            continue;
        while (last + 1 < cpus && mask[(last + 1) / 8] >> (last + 1) % 8 & 1)
            last++;
        dprintf(copy, last > i ? "%s%d-%d" : "%s%d", between, i, last);
        between = ",";
        i = last;
    }
    dprintf(copy, "%s", rest);
    lseek(copy, 0, SEEK_SET);
    return copy;
}

static int opened(int fd, const char *path) {
    int pid = 0, length = 0;
    if (!cpus || fd < 0)
        return fd;
    if (!strcmp(path, "/proc/self/status"))
        pid = self();
    else if (sscanf(path, "/proc/%d/status%n", &pid, &length) != 1 || !length || path[length])
        return fd;
    int copy = status_of(pid, fd);
    if (copy < 0)
        return fd;
    close(fd);
    return copy;
}

static int mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0; }

int open(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    va_list list;
    va_start(list, flags);
    int mode = mode_of(flags, list);
    va_end(list);
    return opened(REAL("open")(path, flags, mode), path);
}

int open64(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    va_list list;
    va_start(list, flags);
    int mode = mode_of(flags, list);
    va_end(list);
    return opened(REAL("open64")(path, flags, mode), path);
}

/* OpenMP's threads are born with a mask: it waits in `born` from the attribute to the creation of the thread. */
static __thread struct { int have; unsigned char mask[BYTES]; } born;

int pthread_attr_setaffinity_np(pthread_attr_t *attr, size_t size, const cpu_set_t *mask) {
    static int (*real)(pthread_attr_t *, size_t, const cpu_set_t *);
    if (!cpus || !mask)
        return REAL("pthread_attr_setaffinity_np")(attr, size, mask);
    born.have = clip(size, mask, born.mask);
    return born.have ? 0 : EINVAL;
}

struct birth {
    void *(*function)(void *);
    void *argument;
    unsigned char mask[BYTES];
};

static void *live(void *given) {
    struct birth birth = *(struct birth *)given;
    free(given);
    store(self(), birth.mask, 1);
    return birth.function(birth.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *), void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    struct birth *birth = cpus ? malloc(sizeof *birth) : NULL;
    if (!birth)
        return REAL("pthread_create")(thread, attr, function, argument);
    *birth = (struct birth){function, argument, {0}};
    if (attr && born.have)
        memcpy(birth->mask, born.mask, BYTES);
    else
        find(self(), birth->mask);
    born.have = 0;
    int error = REAL("pthread_create")(thread, attr, live, birth);
    if (error)
        free(birth);
    return error;
}
