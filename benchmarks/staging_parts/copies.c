/* The upper limit of copying with some processes: directories of files, read and written by plain calls, without records.

   copies SOURCE TARGET PROCESSES [promises]

   With `promises` it also makes the calls of a copy that knows its size before the first byte, notices changed files and
   keeps times: status and attributes of every file first, status again after reading, times. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static char buffer[1 << 20];
static int promises;

static void insist(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void copy(int from, int to, const char *name) {
    int in = openat(from, name, O_RDONLY), out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    insist(in >= 0 && out >= 0, name);
    for (ssize_t got; (got = read(in, buffer, sizeof buffer)) != 0;)
        insist(got > 0 && write(out, buffer, got) == got, name);
    if (promises) {
        struct stat status;
        insist(!fstat(in, &status), name);
        insist(!futimens(out, (struct timespec[]){status.st_mtim, status.st_mtim}), name);
    }
    close(in), close(out);
}

static void look(int source, int target, const char *name) {
    (void)target;
    int from = openat(source, name, O_RDONLY | O_DIRECTORY);
    DIR *list = fdopendir(from);
    insist(list && !fchdir(from), name);
    struct stat status;
    for (struct dirent *entry; (entry = readdir(list));)
        insist(!lstat(entry->d_name, &status) && llistxattr(entry->d_name, buffer, sizeof buffer) >= 0, entry->d_name);
    closedir(list);
}

static void directory(int source, int target, const char *name) {
    insist(!mkdirat(target, name, 0755), name);
    int from = openat(source, name, O_RDONLY | O_DIRECTORY), to = openat(target, name, O_RDONLY | O_DIRECTORY);
    DIR *list = fdopendir(from);
    insist(list && to >= 0, name);
    for (struct dirent *entry; (entry = readdir(list));)
        if (entry->d_type == DT_REG) copy(from, to, entry->d_name);
    closedir(list), close(to);
}

int main(int count, char **words) {
    insist(count == 4 || count == 5, "usage: copies SOURCE TARGET PROCESSES [promises]");
    int processes = atoi(words[3]);
    promises = count == 5;
    struct dirent **names;
    int many = scandir(words[1], &names, NULL, alphasort);
    insist(many >= 0 && !mkdir(words[2], 0755), words[2]);
    int source = open(words[1], O_PATH), target = open(words[2], O_PATH), failed = 0;
    void (*steps[])(int, int, const char *) = {look, directory};
    for (int step = promises ? 0 : 1; step < 2; step++) {
        for (int process = 0; process < processes; process++)
            if (!fork()) {
                for (int number = process; number < many; number += processes)
                    if (names[number]->d_name[0] != '.') steps[step](source, target, names[number]->d_name);
                exit(0);
            }
        for (int status; wait(&status) > 0;) failed |= status;
    }
    return failed != 0;
}
