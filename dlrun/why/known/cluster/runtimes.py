"""Errors of further programs that start containers: Shifter, Sarus, Podman without a login session, Docker."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_SHIFTER = "https://github.com/NERSC/shifter/blob/master/src/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="Shifter and Sarus",
        source=_SHIFTER,
        forms=(
            Form(
                cause="container-image",
                texts=(
                    "Failed to lookup image '{1}'",
                    "Failed to lookup image {1}",
                    "FAILED to find requested image",
                    "Image is not in READY state",
                    "Failed to find image {1} in the",
                ),
                source=_SHIFTER + "shifter.c",
                means="the runtime has no image of this name on the cluster",
                check="`shifterimg images` (Sarus: `sarus images`, Podman: `podman-hpc images`) on a login node",
                next="pull it on a login node (`shifterimg pull`, `sarus pull`, `podman-hpc pull` and `podman-hpc migrate`), and give the same name in the job",
            ),
            Form(
                cause="container-mount",
                texts=(
                    "FAILED to setup user-requested mounts",
                    "Failed to bind mount {1}",
                    "Invalid Volume Map: {1}",
                    "invalid --volume",
                    "Failed to mount {1} on",
                ),
                source=_SHIFTER + "shifter_core.c",
            ),
            Form(
                cause="container",
                texts=(
                    "FAILED to setup image.",
                    "Failed to setup UDI",
                    "FAILED to mount image volume (loop device)",
                    "FAILED to chdir to {1}",
                    "Not running with root privileges",
                ),
                source=_SHIFTER + "shifter_core.c",
            ),
        ),
    ),
    Writer(
        name="Podman and Docker in a job",
        source="https://github.com/containers/podman",
        forms=(
            Form(
                cause="permission",
                texts=(
                    "cannot mkdir {1}: mkdir {}: no such file or directory",
                    "cannot mkdir {1}: mkdir {}: permission denied",
                    "Failed to obtain podman configuration: {1}",
                    "XDG_RUNTIME_DIR directory {1} is not owned by the current user",
                    "lstat /run/user/{1}: no such file or directory",
                ),
                source="https://github.com/podman-container-tools/podman/issues/10039",
                means="Podman has no directory for its run time: {1}",
                check="`echo $XDG_RUNTIME_DIR` in the job, and `ls -ld` of it",
                next="`environment.setup: ['export XDG_RUNTIME_DIR=$(mktemp -d)']`: jobs have no login session that makes the directory",
            ),
            Form(
                cause="file-locks",
                texts=(
                    "database configuration mismatch",
                    "creating lock file directory: {1}",
                    "error acquiring lock{1}",
                    "boltdb{} timeout",
                ),
                source="https://github.com/containers/podman/blob/main/troubleshooting.md",
                means="Podman's store is used by several nodes, or was created with other settings: {1}",
                check="`podman info` shows `graphRoot` and `runRoot`: each node needs its own",
                next="keep them on node-local storage (`--root` and `--runroot`, or `podman-hpc`, which does)",
            ),
            Form(
                cause="container",
                texts=(
                    "Cannot connect to the Docker daemon at {1}.",
                    "permission denied while trying to connect to the Docker daemon socket",
                    "dial unix /var/run/docker.sock: connect: {1}",
                    "Cannot connect to Podman{1}",
                ),
                source="https://github.com/docker/cli",
                means="the job's user cannot use Docker's daemon on this node",
                check="`docker info` on a compute node",
                next="use a runtime of the cluster without a daemon (`environment.container` with Apptainer, enroot or Podman)",
            ),
        ),
    ),
)
