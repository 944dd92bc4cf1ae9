"""Errors of enroot, and of pyxis, with which Slurm starts ranks in its containers."""

from __future__ import annotations

from dlrun.why.known.containers.nvidia import DRIVER_MISMATCH
from dlrun.why.known.form import Form, Writer

_PYXIS = "https://github.com/NVIDIA/pyxis/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="enroot and pyxis",
        source=_PYXIS,
        line=r"\bpyxis: |\benroot\b|\bspank_pyxis\b|Failed to invoke spank plugin stack",
        forms=(
            Form(
                cause="container-image",
                texts=(),
                regex=r"\bURL https?://\S*/([\w.-]+\.(?:sqsh|squashfs|sif))/manifests/",
                source="https://github.com/NVIDIA/pyxis/issues/67",
                means="the file {1} was taken as an image of a registry, as its name has no directory",
                next="give its path in `environment.container.image` (`/…` or `./…`)",
                anywhere=True,
            ),
            Form(
                cause="driver-old",
                texts=("unsatisfied condition: cuda>={1}",),
                source="https://github.com/NVIDIA/libnvidia-container/blob/main/src/nvc_container.c",
            ),
            DRIVER_MISMATCH,
            Form(
                cause="gpu-library",
                texts=(
                    "nvidia-container-cli: mount error: {1}",
                    "nvidia-container-cli: ldcache error: {1}",
                    "nvidia-container-cli: {1}",
                    "[hook: {}nvidia.sh]",
                ),
                source="https://github.com/NVIDIA/libnvidia-container/issues/313",
                means="the GPUs of the node could not be made available in the container: {1}",
                next="exclude the node (`resources.exclude`), submit again, and report it to the centre",
            ),
            Form(
                cause="container-namespace",
                texts=("failed to create user namespace: {1}", "failed to create user namespace"),
                source=_PYXIS + "issues/93",
                check="`cat /proc/sys/user/max_user_namespaces /proc/sys/kernel/unprivileged_userns_clone` on the node, and whether a service of the node (`srun`, a container) denies them",
                next="ask the centre to allow user namespaces in jobs, and more of them (`/proc/sys/user/max_user_namespaces`); if only one node is affected, exclude it (`resources.exclude`)",
                anywhere=True,
            ),
            Form(
                cause="container-mount",
                texts=(
                    "enroot-mount: failed to mount: {1}: Permission denied",
                    "enroot-mount: failed to mount: {1}",
                ),
                source="https://github.com/NVIDIA/enroot/issues/140",
            ),
            Form(
                cause="container-image",
                texts=(),
                regex=r"\bURL https?://registry-1\.docker\.io/v2/((?:[\w-]+\.)+[a-z]{2,}(?::\d+)?)/",
                source="https://github.com/NVIDIA/pyxis/issues/39",
                means="the image was looked for at Docker Hub: its registry, {1}, was taken for a part of its name",
                next="write `#` behind the registry in `environment.container.image`: `{1}#NAME:TAG`; credentials for it are in `~/.config/enroot/.credentials`",
                anywhere=True,
            ),
            Form(
                cause="container-image",
                texts=(
                    "[ERROR] URL {1} returned error code: 401",
                    "[ERROR] URL {1} returned error code: 403",
                ),
                source="https://github.com/NVIDIA/enroot/issues/161",
                means="the registry refused the image: it does not exist there, or needs credentials",
                check="`enroot import docker://…` of it on a login node",
                next="correct `environment.container.image`; credentials are in `~/.config/enroot/.credentials`, and a token in it may have expired",
                anywhere=True,
            ),
            Form(
                cause="container",
                texts=(),
                regex=r"\b(enroot-(?:aufs2ovlfs|mksquashovlfs|mount|switchroot|nsenter)): (?:command not found|Operation not permitted)",
                source="https://github.com/NVIDIA/pyxis/issues/8",
                means="enroot is not completely installed on the node: {1}",
                next="exclude the node (`resources.exclude`) if others have it, and ask the centre to install the packages `enroot` and `enroot+caps`; an image file (`enroot import` elsewhere, `.sqsh`) needs it less",
                anywhere=True,
            ),
            Form(
                cause="container-image",
                texts=("SSL routines:{}wrong version number", "server gave HTTP response to HTTPS client"),
                source="https://github.com/NVIDIA/pyxis/issues/112",
                means="the image's registry does not speak TLS at that port",
                next="`environment.variables: {ENROOT_ALLOW_HTTP: 'yes'}` (Apptainer: `environment.variables: {APPTAINER_NOHTTPS: 1}`), or fetch the image on a login node into a file",
                anywhere=True,
                passing=True,
            ),
            Form(
                cause="container",
                texts=("couldn't mkdir {1}:", "couldn't create {1}"),
                source="https://github.com/NVIDIA/pyxis/issues/4",
                next="ask the centre: pyxis' directory on the node (`runtime_path` in plugstack.conf) must exist; exclude the node if only it is affected",
            ),
            Form(
                cause="container",
                texts=(
                    "Command not found: {1}",
                    "Could not process JSON input",
                    "enroot-aufs2ovlfs: {1}",
                    "failed to set capabilities",
                ),
                source="https://github.com/NVIDIA/enroot/blob/master/src/common.sh",
            ),
            Form(
                cause="container-image",
                texts=("No such file or directory: {1}", "Invalid argument: {1}"),
                source="https://github.com/NVIDIA/enroot/blob/master/src/runtime.sh",
            ),
            Form(
                cause="disk-full",
                texts=("No space left on device",),
                source=_PYXIS,
                means="the node's storage for images is full",
                next="use an image file (`.sqsh`) on a shared file system, or ask the centre where `ENROOT_DATA_PATH` and `ENROOT_CACHE_PATH` are",
            ),
            Form(
                cause="permission",
                texts=(
                    "mkdir: cannot create directory {1}: Permission denied",
                    "cannot create directory {1}: Permission denied",
                    "Permission denied",
                ),
                source=_PYXIS + "issues/12",
                means="the container runtime may not write its directories on the node",
                next="ask the centre to set `ENROOT_RUNTIME_PATH`, `ENROOT_CACHE_PATH` and `ENROOT_DATA_PATH` to directories of each user",
            ),
            Form(
                cause="container-image",
                texts=("returned error code: 401", "returned error code: 403", "unauthorized"),
                source=_PYXIS + "issues/70",
                means="the registry refused the image: it does not exist there, or needs credentials",
                next="correct `environment.container.image`; credentials are in `~/.config/enroot/.credentials`",
            ),
            Form(
                cause="hub-limit",
                texts=("returned error code: 429", "Too Many Requests", "toomanyrequests"),
                source=_PYXIS,
                means="the registry limits requests (429): every node fetched the image at once",
                next="import the image once on a login node (`enroot import -o image.sqsh docker://…`) and name the file",
            ),
            Form(
                cause="no-network",
                texts=("Could not resolve host", "Failed to connect to", "Network is unreachable"),
                source="https://github.com/NVIDIA/enroot",
                means="the node cannot reach the registry of the image",
                next="import the image on a login node (`enroot import -o image.sqsh docker://…`) and name the file",
            ),
            Form(
                cause="container-image",
                texts=(
                    "returned error code: {1}",
                    "Invalid image reference: {1}",
                    "No such file or directory: {1}.sqsh",
                    "Can't find a SQUASHFS superblock on {1}",
                    "squashfs: {}",
                ),
                source=_PYXIS + "blob/master/pyxis_slurmstepd.c",
            ),
            Form(
                cause="container-namespace",
                texts=("kernel.unprivileged_userns_clone", "seccomp filter failed", "nsenter"),
                source=_PYXIS + "issues/42",
            ),
            Form(
                cause="container-mount",
                texts=("enroot-mount: {1}", "failed to mount"),
                source="https://github.com/NVIDIA/enroot/blob/master/bin/enroot-mount.c",
            ),
            Form(
                cause="command-missing",
                texts=(
                    "enroot-switchroot: failed to execute: {1}: No such file or directory",
                    "failed to execute: {1}",
                ),
                source=_PYXIS + "issues/61",
            ),
            Form(
                cause="container-image",
                texts=('a container with name "{1}" does not exist',),
                source=_PYXIS + "issues/172",
            ),
            Form(
                cause="container-image",
                texts=(),
                regex=r"pyxis: importing docker image: [^/\s]+\.(?:sqsh|squashfs)\b",
                source=_PYXIS + "wiki/Usage",
                means="the image is a file, but pyxis takes a name without a directory for that of an image in a registry",
                next="`environment.container.image: ./NAME.sqsh`, or its whole path",
                passing=True,
            ),
            Form(
                cause="container-image",
                texts=("pyxis: failed to import docker image",),
                source=_PYXIS + "blob/master/pyxis_slurmstepd.c",
                consequence=True,
            ),
            Form(
                cause="container",
                texts=(
                    "pyxis: container start failed with error code: {}",
                    "pyxis: couldn't start container",
                    "required plugin spank_pyxis.so: task_init",
                    "required plugin spank_pyxis.so",
                    "pyxis: child {} failed with error code",
                    "pyxis: child {} terminated with signal",
                    "pyxis: couldn't join",
                    "pyxis: couldn't get container attributes",
                    "Failed to invoke spank plugin stack",
                    "enroot",
                ),
                regex=r"\[ERROR\]|pyxis: (?!importing|imported|creating|printing)",
                source=_PYXIS + "blob/master/pyxis_slurmstepd.c",
                consequence=True,
            ),
        ),
    ),
)
