/* A read-only view of a directory in which every call takes a while, as on a busy parallel file system.

   slow ROOT METADATA_US READ_US MOUNTPOINT
   METADATA_US: what a lookup, an open and a directory's list take; READ_US: what a read takes.
   At the end the number of calls goes to the file $SLOW_CALLS: lookups, opens, reads, lists. */
#define FUSE_USE_VERSION 312
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int root, metadata, reading;
static atomic_long lookups, opens, reads, lists;

static const char *relative(const char *path) { return path[1] ? path + 1 : "."; }

static int status_of(const char *path, struct stat *into, struct fuse_file_info *file) {
    (void)file;
    lookups++;
    usleep(metadata);
    return fstatat(root, relative(path), into, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int open_file(const char *path, struct fuse_file_info *file) {
    opens++;
    usleep(metadata);
    int descriptor = openat(root, relative(path), O_RDONLY);
    file->fh = descriptor;
    return descriptor < 0 ? -errno : 0;
}

static int read_file(const char *path, char *into, size_t size, off_t offset, struct fuse_file_info *file) {
    (void)path;
    reads++;
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
    lists++;
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

static void end(void *unused) {
    (void)unused;
    FILE *file = getenv("SLOW_CALLS") ? fopen(getenv("SLOW_CALLS"), "w") : NULL;
    if (file) fprintf(file, "%ld %ld %ld %ld\n", lookups, opens, reads, lists), fclose(file);
}

static const struct fuse_operations calls = {
    .getattr = status_of, .open = open_file, .read = read_file, .release = close_file, .readdir = list, .init = begin,
    .destroy = end};

int main(int count, char **words) {
    if (count != 5 || (root = open(words[1], O_PATH | O_DIRECTORY)) < 0) {
        fprintf(stderr, "usage: slow ROOT METADATA_US READ_US MOUNTPOINT\n");
        return 2;
    }
    metadata = atoi(words[2]), reading = atoi(words[3]);
    struct fuse_args arguments = FUSE_ARGS_INIT(1, words);
    struct fuse *files = fuse_new(&arguments, &calls, sizeof calls, NULL);
    if (!files || fuse_mount(files, words[4]) || fuse_daemonize(0)) return 1;
    struct fuse_loop_config *loop = fuse_loop_cfg_create();
    fuse_loop_cfg_set_clone_fd(loop, 0);
    fuse_loop_cfg_set_max_threads(loop, 128);  // 10 of their own accord, which would hold every way back
    fuse_loop_cfg_set_idle_threads(loop, 128);
    fuse_loop_mt(files, loop);
    fuse_unmount(files);
    fuse_destroy(files);
    return 0;
}
