"""Errors of the system about names, kinds of file systems and processors, whichever program meets them."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_ERRNO = "https://man7.org/linux/man-pages/man3/errno.3.html"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="Linux",
        source=_ERRNO,
        forms=(
            Form(
                cause="too-many-files",
                texts=("inotify instance limit reached", "Failed to initialize inotify"),
                source="https://man7.org/linux/man-pages/man7/inotify.7.html",
                means="the user's limit of programs that watch files (inotify) was reached on the node; it is not that of open files",
                check="`sysctl fs.inotify.max_user_instances` on the node",
                next="switch off what watches files (a reloader, a dashboard), or ask the centre to raise `fs.inotify.max_user_instances`",
            ),
            Form(
                cause="permission",
                texts=(),
                regex=r"(?<![^\s'\"])(/root/[^\s'\"]*)['\"]?: Permission denied|Permission denied: b?['\"](/root(?:/[^'\"]*)?)['\"]|cannot (?:create|open|access)\b.*?(/root/[^\s'\"]*)['\"]?: Permission denied|mkdir (/root/\S*): permission denied",
                source="https://apptainer.org/docs/user/main/bind_paths_and_mounts.html",
                means="the program uses the home of root, and the job's user is another one: {1}",
                check="`echo $HOME` in the job; in a container also what the image sets",
                next="`environment.variables: {HOME: …}` (or `XDG_CACHE_HOME`, `HF_HOME`) with a directory of the job's user; files that the image keeps in `/root` must be elsewhere in it, or readable by all",
                passing=True,
            ),
            Form(
                cause="shared-memory",
                texts=(),
                regex=r"OSError: \[Errno 28\] No space left on device",
                stack=r"/multiprocessing/(?:synchronize|heap|shared_memory)\.py|\bSemLock\(",
                source="https://docs.python.org/3/library/multiprocessing.html",
                means="shared memory (`/dev/shm`) is full: processes of Python could not make a lock or a segment there",
            ),
            Form(
                cause="configuration",
                texts=("File name too long",),
                source=_ERRNO,
                means="the name of a file is longer than its file system takes (mostly 255 bytes for each part)",
                check="`echo -n NAME | wc -c`, and `df -T` of the directory (encrypted ones take 143)",
                next="give the run, the experiment or the cache a shorter name, or another file system",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=("Invalid cross-device link: {1}", "Invalid cross-device link"),
                source=_ERRNO,
                means="a file was to be renamed or linked from one file system to another",
                check="`df` of both directories",
                next="have the temporary directory on the file system of the result (`TMPDIR`, the library's own cache variable), or copy in place of renaming",
                passing=True,
            ),
            Form(
                cause="file-missing",
                texts=(),
                regex=r"(?:NotADirectoryError: \[Errno 20\] Not a directory|IsADirectoryError: \[Errno 21\] Is a directory): (b?'[^']*/[^']*')",
                source=_ERRNO,
                means="a path names a file where a directory is expected, or the other way: {1}",
                passing=True,
            ),
            Form(
                cause="file-system",
                texts=("Device or resource busy: '.nfs{1}'",),
                stack=r"tempfile\.py|multiprocessing/util\.py",
                source="https://github.com/pytorch/pytorch/issues/143471",
                means="a temporary directory on NFS could not be removed, as a process still had a file of it open",
                check="`echo $TMPDIR` in the job, and `df -T` of it",
                next="`environment.variables: {TMPDIR: /tmp}`, or another directory of node-local storage; it often follows from another end of the same process: see the lines above",
                passing=True,
            ),
            Form(
                cause="file-system",
                texts=(),
                regex=r"\[Errno (?:19|31|38|45|95)\] (?:No such device|Too many links|Function not implemented|Operation not supported): (b?'/(?!.*lock)[^']*')",
                source=_ERRNO,
                means="the file system does not have what the program asks of it (links, locks, mapped or sparse files, attributes): {1}",
                check="`df -T` of the directory",
                next="keep that file on another file system (node-local storage), or switch the feature off in the program",
                passing=True,
            ),
        ),
    ),
)
