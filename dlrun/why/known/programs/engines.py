"""Errors of other programs that start containers (Podman, Docker), of TensorRT-LLM and DGL."""

from __future__ import annotations

from dlrun.why.known.containers.nvidia import DRIVER_MISMATCH
from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="Podman and Docker",
        source="https://github.com/containers/podman",
        forms=(
            Form(
                cause="driver-old",
                texts=(
                    "requirement error: unsatisfied condition: cuda>={1}",
                    "unsupported CUDA version: driver {} < image {1}",
                ),
                source="https://github.com/NVIDIA/libnvidia-container/blob/main/src/nvc_container.c",
            ),
            Form(
                cause="container-namespace",
                texts=("fuse: device not found, try 'modprobe fuse' first", "Error: OCI permission denied"),
                source="https://github.com/libfuse/libfuse",
            ),
            Form(
                cause="container-image",
                texts=(
                    'Error: short-name "{1}" did not resolve to an alias',
                    "Error: initializing source docker://{1}: ",
                    "manifest for {1} not found",
                    "Unable to find image '{1}' locally",
                    "Error: {1}: image not known",
                    "pull access denied for {1}",
                    "Error: reading manifest {1}",
                    "manifest unknown",
                    "Trying to pull {}...Error",
                ),
                source="https://github.com/containers/podman/blob/main/troubleshooting.md",
                passing=True,
            ),
            Form(
                cause="gpu-library",
                texts=("setting up CDI devices: {1}", "failed to inject devices: {1}"),
                source="https://github.com/NVIDIA/nvidia-container-runtime/issues/182",
                means="the description of the GPUs for containers (CDI) does not fit the node: {1}",
                check="`nvidia-ctk cdi list` on the node, and the files that `/etc/cdi` names",
                next="ask the centre to write it again (`nvidia-ctk cdi generate`); until then exclude the node (`resources.exclude`)",
            ),
            Form(
                cause="container-namespace",
                texts=(
                    "sd-bus add match: {1}",
                    "sd-bus call: {1}: OCI runtime {}",
                    "rootless {} requires cgroup {1}",
                ),
                source="https://github.com/containers/crun/issues/268",
                means="the container runtime may not use the session's systemd or cgroups on this node: {1}",
                next="run it with `--cgroups=disabled` or `--cgroup-manager=cgroupfs`, or ask the centre for sessions of users in jobs (`loginctl enable-linger`)",
            ),
            Form(
                cause="permission",
                texts=(
                    "creating events dirs: mkdir {1}: permission denied",
                    "RunRoot is pointing to a path ({1}) which is not writable",
                ),
                source="https://github.com/AMDResearch/hpcfund/issues/28",
                means="Podman has no directory for its run time: {1}",
                check="`echo $XDG_RUNTIME_DIR` in the job, and `ls -ld` of it",
                next="`environment.setup: ['export XDG_RUNTIME_DIR=$(mktemp -d)']`: jobs have no login session that makes the directory",
            ),
            Form(
                cause="container-namespace",
                texts=(
                    "cannot set up namespace using",
                    "there might not be enough IDs available in the namespace",
                    "cannot re-exec process to join the existing user namespace",
                    "potentially insufficient UIDs or GIDs available in user namespace",
                    "newuidmap: write to uid_map failed",
                    "no subuid ranges found for user",
                    "no subgid ranges found for user",
                    "kernel does not support overlay fs",
                    "cannot clone: Operation not permitted",
                ),
                source="https://github.com/containers/podman/blob/main/troubleshooting.md",
            ),
            Form(
                cause="container-image",
                texts=("Specified image {1} is not available",),
                source="https://sarus.readthedocs.io/en/stable/user/user_guide.html",
                next="pull it on a login node (`sarus pull`); `sarus images` lists those that are there",
            ),
            Form(
                cause="container-image",
                texts=("exec {1}: exec format error",),
                source="https://github.com/containers/podman/blob/main/troubleshooting.md",
                means="the image is for another kind of CPU than the node has, or its program is not one: {1}",
                check="`uname -m` on the node, and the architecture of the image",
                next="take the image for this architecture (`--platform`), or nodes of the other (`resources.constraint`)",
            ),
            Form(
                cause="container-mount",
                texts=("Error: statfs {1}: no such file or directory", "invalid mount config for type"),
                source="https://github.com/containers/podman",
            ),
            DRIVER_MISMATCH,
            Form(
                cause="gpu-library",
                texts=(
                    'could not select device driver "" with capabilities: [[gpu]]',
                    "unresolvable CDI devices {1}",
                    "nvidia-container-cli: initialization error",
                    "nvidia-container-cli: {1}",
                ),
                source="https://github.com/NVIDIA/libnvidia-container",
                means="the GPUs of the node could not be made available in the container",
                next="exclude the node (`resources.exclude`), submit again, and report it to the centre",
            ),
            Form(
                cause="container",
                texts=(
                    "OCI runtime error: {1}",
                    'Error for command "{}": {1}',
                    "Error: crun: {1}",
                    "Error: runc: {1}",
                    "OCI runtime create failed: {1}",
                    "docker: Error response from daemon: {1}",
                    "Cannot connect to the Docker daemon at",
                ),
                regex=r"^Error: (.+): OCI runtime (?:\w+ )*error$",
                source="https://github.com/containers/crun",
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="TensorRT-LLM",
        source="https://github.com/NVIDIA/TensorRT-LLM",
        forms=(
            Form(
                cause="ranks",
                texts=(),
                regex=r"Assertion failed: (.*\b(?:GPUs|MPI|[Ww]orld|ranks|mpiSize)\b.*(?:\b[TPCED]P\b|[Pp]arallel|\btp ?\* ?pp\b).*)",
                source="https://github.com/triton-inference-server/tensorrtllm_backend/issues/283",
                passing=True,
            ),
        ),
    ),
    Writer(
        name="DGL",
        source="https://github.com/dmlc/dgl",
        forms=(
            Form(
                cause="port-in-use",
                texts=("Failed bind on {1} , error", "Failed bind on {1}, error"),
                source="https://github.com/dmlc/dgl/blob/master/src/rpc/network/tcp_socket.cc",
                next="end what is left of an earlier run on that node, or give the servers another port",
                anywhere=True,
            ),
        ),
    ),
)
