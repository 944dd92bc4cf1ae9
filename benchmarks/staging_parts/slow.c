/* A read-only view of a directory in which every call is delayed, as on a busy parallel file system.

   slow ROOT METADATA_US READ_US MOUNTPOINT
   METADATA_US: delay of a lookup, an open and a directory listing; READ_US: delay of a read.
   Runs until it is unmounted or killed. The file $SLOW_CALLS always has the number of calls so far, as four C longs:
   lookups, opens, reads, lists. It is a mapped file, not written at the end, because the end may never come: as long as
   another, newer mount namespace has a copy of the mount, the kernel keeps the file system alive. */
#define FUSE_USE_VERSION 312
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int root, metadata, reading;
static struct { atomic_long lookups, opens, reads, lists; } *count;

static const char *relative(const char *path) { return path[1] ? path + 1 : "."; }

static int status_of(const char *path, struct stat *into, struct fuse_file_info *file) {
    (void)file;
    count->lookups++;
    usleep(metadata);
    return fstatat(root, relative(path), into, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int open_file(const char *path, struct fuse_file_info *file) {
    count->opens++;
    usleep(metadata);
    int descriptor = openat(root, relative(path), O_RDONLY);
    file->fh = descriptor;
    return descriptor < 0 ? -errno : 0;
}

static int read_file(const char *path, char *into, size_t size, off_t offset, struct fuse_file_info *file) {
    (void)path;
    count->reads++;
    usleep(reading);
    ssize_t got = pread(file->fh, into, size, offset);
    return got < 0 ? -errno : got;
}

static int close_file(const char *path, struct fuse_file_info *file) {
    (void)path;
    return close(file->fh) ? -errno : 0;
}

static int list(const char *path, void *into, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *file,
                enum fuse_readdir_flags flags) {
    (void)offset, (void)file, (void)flags;
    count->lists++;
    usleep(metadata);
    int descriptor = openat(root, relative(path), O_RDONLY | O_DIRECTORY);
    DIR *directory = descriptor < 0 ? NULL : fdopendir(descriptor);
    if (!directory) return -errno;
    for (struct dirent *entry; (entry = readdir(directory));) {
        struct stat status = {.st_ino = entry->d_ino, .st_mode = entry->d_type << 12};
        if (fill(into, entry->d_name, &status, 0, 0)) break;
    }
    closedir(directory);
    return 0;
}

static void *begin(struct fuse_conn_info *connection, struct fuse_config *config) {
    connection->want |= connection->capable & FUSE_CAP_PARALLEL_DIROPS;  // as the clients of parallel file systems
    config->attr_timeout = config->entry_timeout = 10;
    return NULL;
}

static const struct fuse_operations calls = {
    .getattr = status_of, .open = open_file, .read = read_file, .release = close_file, .readdir = list, .init = begin};

int main(int number, char **words) {
    if (number != 5 || (root = open(words[1], O_PATH | O_DIRECTORY)) < 0) {
        fprintf(stderr, "usage: slow ROOT METADATA_US READ_US MOUNTPOINT\n");
        return 2;
    }
    metadata = atoi(words[2]), reading = atoi(words[3]);
    int file = open(getenv("SLOW_CALLS"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, sizeof *count)) return 1;
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (count == MAP_FAILED) return 1;
    struct fuse_args arguments = FUSE_ARGS_INIT(1, words);
    struct fuse *files = fuse_new(&arguments, &calls, sizeof calls, NULL);
    if (!files || fuse_mount(files, words[4])) return 1;
    struct fuse_loop_config *loop = fuse_loop_cfg_create();
    fuse_loop_cfg_set_clone_fd(loop, 0);
    fuse_loop_cfg_set_max_threads(loop, 128);  // 10 of their own accord, which would hold every way back
    fuse_loop_cfg_set_idle_threads(loop, 128);
    fuse_loop_mt(files, loop);
    fuse_unmount(files);
    fuse_destroy(files);
    return 0;
}
