"""A program of a job: its environment, container and secrets, and the roles of a job with several programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import ClassVar, Literal

from dlrun.model.data import DataSet
from dlrun.model.keys import BACK_END, DATA_NAME, PLAIN, VARIABLE_NAME, key, saved
from dlrun.model.placement import PlacementOptions
from dlrun.model.record import record
from dlrun.model.text import Text, lazy_pattern
from dlrun.model.units import Bytes, Duration

ROLE_NAME = r"[A-Za-z][A-Za-z0-9_]{0,31}"
"""The name of a role: part of the names of variables and of a path."""


@record(frozen=True, slots=True, kw_only=True)
class Container:
    """The container image that the ranks run in."""

    image: str = key("path or URI of the image", pattern=PLAIN, path=True)
    runtime: Literal["apptainer", "enroot"] = key(
        "apptainer (or singularity), or enroot through pyxis", default="apptainer"
    )
    binds: tuple[str, ...] = key(
        "host paths to bind-mount (`/path` or `/host:/inside`)", default=(), path=True
    )
    fetch: Literal["submission", "job"] = key(
        "when Apptainer pulls an image that is not a file (`docker://`, `oras://`, `library://`, `https://`), once for all ranks "
        "and jobs: at the submission, or in the job, on its first node",
        default="submission",
    )
    workdir: str | None = key(
        "working directory inside the container; default: that of the job", default=None, pattern=PLAIN
    )
    arguments: tuple[str, ...] = key(
        "additional arguments of the container runtime", default=(), single="never"
    )


@record(frozen=True, slots=True, kw_only=True)
class Environment:
    """The environment of the training command."""

    hygiene: Literal["auto", "keep", "reset", "purge"] = key(
        "what happens to modules that are already loaded; auto: the site's rule", default="auto"
    )
    modules: tuple[str, ...] = key("environment modules to load, in order", default=())
    venv: str | None = key("Python virtual environment to activate", default=None, pattern=PLAIN, path=True)
    stage: bool | None = key(
        "copy the venv, or the image of the container, to node-local storage first: importing Python packages on a thousand "
        "ranks from a shared file system makes millions of metadata requests; default: images where the site profile has "
        "`storage.node_local.images: true`",
        default=None,
    )
    conda: str | None = key(
        "conda environment (name or path) to activate", default=None, pattern=PLAIN, path=True
    )
    container: Container | None = key("container that the ranks run in", default=None)
    variables: Mapping[str, str] = key(
        "environment variables of every rank; `{{ env.NAME }}` is a variable of the node, `{{ }}` inserts values of the plan",
        factory=dict,
        names=VARIABLE_NAME,
    )
    drop: tuple[str, ...] = key(
        "variables to leave unset, even if dlrun, the site or a module would set them",
        default=(),
        pattern=VARIABLE_NAME,
    )
    setup: tuple[str, ...] = key(
        "shell lines to run before the launch, copied unchanged", default=(), single="text"
    )


@record(frozen=True, slots=True, kw_only=True)
class Secret:
    """Where a secret is read from when the job runs: exactly one of the three."""

    env: str | None = key("environment variable of the submitting shell", default=None, pattern=VARIABLE_NAME)
    file: str | None = key("file that only you can read (mode 0600)", default=None, pattern=PLAIN, path=True)
    command: tuple[str, ...] = key("command that prints the secret", default=(), single="never")


@record(frozen=True, slots=True, kw_only=True)
class Ready:
    """When the roles that need this one may start: one of port, http, log and file."""

    port: bool = key("its port, `{{ role.NAME.port }}` on its first node, accepts connections", default=False)
    http: str | None = key(
        "a request of this path at its port is answered with `status`",
        default=None,
        pattern=r"/[^\x00-\x20\x7f]*",
        expected="a path such as `/health`",
    )
    status: int = key("with `http`: status of the answer", default=200, minimum=100, maximum=599)
    log: str | None = key(
        "one of its logs has a line with this text, or that matches this regular expression",
        default=None,
        pattern=PLAIN,
    )
    file: str | None = key("this file exists", default=None, pattern=PLAIN, path=True)
    within: Duration = key("time limit; after it the role has failed", default=Duration(600), minimum=1)


@record(frozen=True, slots=True, kw_only=True)
class Role:
    """One of several programs of a job: what it runs, and on how many of the job's nodes.

    The framework's options, such as `torch: {…}`, may be here, too. What a role leaves out is as in the rest of the spec.
    """

    OF_JOB: ClassVar[tuple[str, ...]] = (
        "name", "site", "resources", "walltime", "account", "qos", "constraint", "reservation", "exclusive",
        "spare_nodes", "hosts", "exclude", "files", "results", "checkpoint", "on_failure", "verify", "fabric_check",
        "caches", "code", "track", "usage", "logs", "log_link", "after", "chain", "hold", "sweep", "metrics",
    )  # fmt: skip
    """Keys of the whole job."""
    OF_JOB_HELP: ClassVar[str] = (
        "write it outside of `roles`; a role itself has `nodes`, `ranks_per_node`, `gpus_per_node`, `cpus_per_rank`"
    )

    command: tuple[str, ...] = key(
        "command as a list of arguments; a single text is treated as `run`", single="never", minimum=1
    )
    run: str | None = key("command as shell text instead of `command`", default=None)
    framework: str | None = key(
        "how its ranks find one another; `mpi` for a program alone; default: that of the spec",
        default=None,
        pattern=BACK_END,
    )
    launcher: str | None = key(
        "what starts its ranks; default: that of the spec", default=None, pattern=BACK_END
    )
    directory: str | None = key(
        "working directory; default: that of the spec", default=None, pattern=PLAIN, path=True
    )
    nodes: int = key(
        "number of nodes of its own, or with `beside` of those of another role",
        default=1,
        minimum=1,
        maximum=200_000,
    )
    beside: str | None = key(
        "role on whose first nodes it runs, with a part of their cores and GPUs; default: it has nodes of its own, and on a "
        "single machine all roles share it",
        default=None,
        pattern=ROLE_NAME,
    )
    node_type: str | None = key(
        "node type of its nodes, of the site profile; default: as in `resources`", default=None, pattern=PLAIN
    )
    partition: str | None = key(
        "partition or queue of its nodes; default: as in `resources`, or one with nodes of its `node_type`",
        default=None,
        pattern=PLAIN,
    )
    ranks_per_node: int | Literal["auto"] | None = key(
        "ranks on each of its nodes; default: 1 for a role that others need, else as in `resources`; beside other roles one for "
        "each of its GPUs",
        default=None,
        minimum=1,
        maximum=4_096,
    )
    cpus_per_rank: int | Literal["auto"] | None = key(
        "cores of each rank; default: as in `resources`", default=None, minimum=1, maximum=65_536
    )
    gpus_per_node: int | Literal["auto"] | None = key(
        "GPUs that it uses on each of its nodes; default: as in `resources`",
        default=None,
        minimum=0,
        maximum=1_024,
    )
    memory_per_node: Bytes | None = key(
        "memory that it may use on each of its nodes: with `srun` its ranks get no more, and where each role has one, the job "
        "requests their sum; default: not limited",
        default=None,
        minimum=1,
    )
    batch_per_rank: int | None = key("samples per rank and step", default=None, minimum=1)
    placement: PlacementOptions | None = key("CPU, memory and GPU binding of its ranks", default=None)
    environment: Environment | None = key(
        "environment of its command; its variables are added to those of the spec", default=None
    )
    data: Mapping[str, DataSet] = key("data sets of its own, by name", factory=dict, names=DATA_NAME)
    secrets: Mapping[str, Secret] = key("secrets of its own", factory=dict, names=VARIABLE_NAME)
    hang: Duration | None = key(
        "end the job if none of its ranks writes output or uses CPU for this long", default=None, minimum=1
    )
    needs: tuple[str, ...] = key("roles that must be ready before it starts", default=(), pattern=ROLE_NAME)
    ready: Ready | None = key(
        "when the roles that need it may start; default: when its port accepts connections, if a command uses "
        "`{{ role.NAME.address }}` or its port, else when it has started",
        default=None,
    )
    ends: bool | None = key(
        "the job ends when this role does, and the other roles are ended; with `false` it does not; default: without any "
        "`true`, the roles that no other needs",
        default=None,
    )
    restarts: int = key("how often it is started again after a failure", default=0, minimum=0, maximum=1_000)


DIGEST = r"sha256:[0-9a-f]{64}"
_PULLED = lazy_pattern(r"(docker|oras|library|shub|https?)://.+")
"""What Apptainer downloads, and converts, before it starts a program (Apptainer User Guide, "apptainer exec")."""
_IN_REGISTRY = lazy_pattern(rf"(docker|oras)://([^@\s]+?)(?::(\w[\w.-]{{0,127}}))?(?:@({DIGEST}))?")
IMAGES = "images--"
"""The begin of the names of images' directories in the user's store."""
CREDENTIALS = tuple(
    f"{kind}_DOCKER_{part}" for kind in ("APPTAINER", "SINGULARITY") for part in ("USERNAME", "PASSWORD")
)
"""Variables of the runtime (Apptainer User Guide, "Authentication / Private Containers")."""
CONVERSION_ROOM = 64 << 30
"""Bytes free in the temporary directory from which an image is unpacked there: those for training have up to 30 GB unpacked, and
are written a second time as a file (NVIDIA NGC, PyTorch 25.01: 21 GB)."""
_HUB = "registry-1.docker.io"
"""The registry of names without one."""


@record(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """An image as a spec names it, and its digest: that of the registry, or (of_file) that of the converted file.

    digest: None before the registry has answered, or the file is there.
    """

    uri: str = saved(pattern=PLAIN)
    digest: str | None = saved(default=None, pattern=DIGEST)
    of_file: bool = False

    @property
    def registry(self) -> tuple[str, str, str] | None:
        """(host, repository, tag or digest) of an image of a registry; None for other kinds."""
        match = _IN_REGISTRY.fullmatch(self.uri)
        if match is None:
            return None
        host, _, rest = match[2].partition("/")
        if not rest or not (set(host) & {".", ":"} or host == "localhost"):
            host, rest = _HUB, match[2] if rest else f"library/{host}"
        elif host in ("docker.io", "index.docker.io"):
            host, rest = _HUB, rest if "/" in rest else f"library/{rest}"
        return host, rest, match[4] or match[3] or "latest"

    @property
    def pinned(self) -> str:
        """The URI of exactly the image with this digest, where the registry gave one."""
        match = _IN_REGISTRY.fullmatch(self.uri)
        if match is None or self.digest is None or self.of_file:
            return self.uri
        return f"{self.unpinned}@{self.digest}"  # a tag beside a digest is refused

    @property
    def unpinned(self) -> str:
        """The URI without tag and digest."""
        match = _IN_REGISTRY.fullmatch(self.uri)
        return self.uri if match is None else f"{match[1]}://{match[2]}"

    @property
    def folder(self) -> str:
        """The name of the directory of the image's versions in the user's store."""
        named = self.registry
        if named is not None:
            parts = [named[0], *named[1].split("/")]
        else:
            scheme, _, rest = self.uri.partition("://")
            short = sha256(self.uri.encode("utf-8", "surrogateescape")).hexdigest()[:12]
            parts = [scheme, f"{rest.rpartition('/')[2][:80]}-{short}"]
        return IMAGES + "--".join(re.sub(r"[^\w.-]", "_", part, flags=re.ASCII) for part in parts)

    def __str__(self) -> str:
        return self.uri


@record(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """The container image of the ranks, its mounts (host:inside), the runtime's GPU flag, further arguments.

    source: where the image comes from, if it is pulled; in_job: by the first node of the job, not at the submission; path: where
    ranks find it, if it is staged, or pulled in the job.
    """

    runtime: Literal["apptainer", "enroot"]
    image: str
    mounts: tuple[Text, ...]
    gpu_flag: str | None = saved(default=None, pattern=r"-[\w,=-]+")
    workdir: Text | None = None
    arguments: tuple[str, ...] = ()
    source: ImageSource | None = None
    path: Text | None = None
    in_job: bool = False

    @property
    def shown(self) -> str:
        """The image for a line of text, with its digest if that is known."""
        if self.source is None:
            return self.image
        when = "in the job" if self.in_job else "at submission"
        return f"{self.source} ({self.source.digest or f'its digest is asked for {when}'})"


def is_pulled(image: str) -> bool:
    """Whether an image is downloaded by the container runtime, instead of a file."""
    return _PULLED.fullmatch(image) is not None


def is_pulled_in_job(container: Container | None) -> bool:
    """Whether the first node of the job pulls the image of a container."""
    return (
        container is not None
        and container.runtime == "apptainer"
        and container.fetch == "job"
        and is_pulled(container.image)
    )


def parse_image(uri: str) -> ImageSource:
    """The source of an image that is pulled."""
    match = _IN_REGISTRY.fullmatch(uri)
    return ImageSource(uri=uri, digest=match[4] if match is not None else None)
