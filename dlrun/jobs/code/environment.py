"""The software of a job: Python, installed distributions, modules, image, lock file. Names alone are read, no package."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from dlrun.jobs.code import reach
from dlrun.model.plan import Plan
from dlrun.model.program import ContainerPlan
from dlrun.system.paths import home, read_bytes, text_of

_LOCKS = ("uv.lock", "pylock.toml", "poetry.lock", "pdm.lock", "pixi.lock", "conda-lock.yml", "Pipfile.lock")
_LARGEST_LOCK = 16 << 20
_DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})$")
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*([0-9][0-9.]*)", re.MULTILINE)
_MAPPED = re.compile(r"'(/[^'\n]+)'")
_PYTHON = re.compile(r"python(3(\.[0-9]+)?)?")


def described(plan: Plan, root: Path) -> dict[str, Any]:
    """The environment of a plan's command, for the record; root: the directory that may have a lock file."""
    prefix = _prefix(plan)
    facts: dict[str, Any] = {
        "prefix": None if prefix is None else str(prefix),
        "python": None if prefix is None else _python(prefix),
        "distributions": {}
        if prefix is None
        else {distribution.name: distribution.version for distribution in distributions(prefix)},
        "modules": list(plan.environment.modules),
        "image": _image(plan.environment.container),
        "lock": {},
    }
    for name in _LOCKS:
        with suppress(OSError):
            facts["lock"][name] = sha256(read_bytes(root / name, _LARGEST_LOCK)).hexdigest()
    return facts


def named(plan: Plan, locks: Mapping[str, str]) -> dict[str, Any]:
    """What is known of the environment of a job on another host: modules and image by their names; locks: name -> digest."""
    container = plan.environment.container
    return {
        "modules": list(plan.environment.modules),
        "image": None if container is None else _named_image(container),
        "lock": {name: digest for name, digest in locks.items() if name in _LOCKS},
    }


class Distribution(NamedTuple):
    """An installed distribution, and the directory of its metadata."""

    name: str
    version: str
    metadata: str


def installed(plan: Plan) -> list[Distribution]:
    """Each installed distribution, for the check at a start."""
    prefix = _prefix(plan)
    return [] if prefix is None else list(distributions(prefix))


def editable(plan: Plan, root: Path) -> list[str]:
    """Directories below `root`, relative to it, that the environment imports from where they are: `pip install -e`.

    They are in path files of site-packages, or in the mapping of a finder that setuptools writes beside these.
    """
    prefix = _prefix(plan)
    directories: dict[str, None] = {}
    for place in [] if prefix is None else prefix.glob("lib/python3*/site-packages"):
        for path in sorted([*place.glob("*.pth"), *place.glob("__editable__*_finder.py")]):
            with suppress(OSError):
                text = read_bytes(path, 1 << 20).decode("utf-8", errors="surrogateescape")
                names = (
                    text.splitlines()
                    if path.suffix == ".pth"
                    else map(os.path.dirname, _MAPPED.findall(text))
                )
                directories |= dict.fromkeys(name for name in names if reach.is_below(name, [str(root)]))
    return [os.path.relpath(name, root) for name in directories]


def distributions(prefix: Path) -> Iterator[Distribution]:
    """The distributions below a prefix, by the names of their directories (PyPA, Recording installed projects)."""
    for place in sorted(
        [*prefix.glob("lib/python3*/site-packages"), *prefix.glob("lib/python3*/dist-packages")]
    ):
        try:
            names = sorted(os.listdir(place))  # noqa: PTH208 - names alone
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info") and "-" in name:
                what, _, version = name.removesuffix(".dist-info").rpartition("-")
                yield Distribution(what, version, f"{place}/{name}")


def _prefix(plan: Plan) -> Path | None:
    """The environment that the command uses; None if it is unknown before the job runs."""
    named = plan.environment
    if named.container is not None:
        return None
    if named.staged is not None:
        return Path(named.staged.source)
    if named.venv is not None:
        return Path(named.venv)
    if named.conda is not None:
        return _of_conda(named.conda)
    program = (
        next((role.argv[0].literal for role in plan.roles if not role.service and role.argv), None) or ""
    )
    if not _PYTHON.fullmatch(os.path.basename(program)):  # noqa: PTH119 - text alone
        return None
    # Modules and set-up lines may put another Python first on PATH.
    if "/" not in program and (named.modules or named.setup or named.site_setup):
        return None
    path = shutil.which(os.path.join(plan.directory, program) if "/" in program else program)  # noqa: PTH118
    return Path(path).parent.parent if path is not None else None


def _of_conda(name: str) -> Path | None:
    """The directory of a conda environment: a path, or a name in the places where conda keeps environments."""
    if "/" in name:
        return Path(name)
    own = home()
    # https://docs.conda.io/projects/conda/en/stable/user-guide/configuration/custom-env-and-pkg-locations.html
    places = [
        Path(place) for place in os.environ.get("CONDA_ENVS_PATH", "").split(":") if place.startswith("/")
    ]
    places += [Path(os.environ[n]) / "envs" for n in ("MAMBA_ROOT_PREFIX", "CONDA_ROOT") if n in os.environ]
    if (program := os.environ.get("CONDA_EXE")) is not None:
        places.append(Path(program).parent.parent / "envs")
    if own is not None:
        places.append(own / ".conda/envs")
    return next((place / name for place in places if (place / name).is_dir()), None)


def _python(prefix: Path) -> str | None:
    """The version of a prefix's Python, from its own files."""
    if match := _VERSION.search(text_of(prefix / "pyvenv.cfg", 1 << 16)):
        return match[1]
    for path in sorted(prefix.glob("conda-meta/python-3*.json")):
        if match := re.fullmatch(r"python-(3[0-9.]*)-.*", path.stem):
            return match[1]
    return next((path.name.removeprefix("python") for path in sorted(prefix.glob("lib/python3.*"))), None)


def _image(container: ContainerPlan | None) -> dict[str, Any] | None:
    """A container's image: by its digest where its name has one, else by the size and time of its file."""
    if container is None:
        return None
    image = _named_image(container)
    with suppress(OSError):
        status = Path(container.image).stat()
        image |= {"size": status.st_size, "mtime_ns": status.st_mtime_ns}
    return image


def _named_image(container: ContainerPlan) -> dict[str, Any]:
    if container.source is not None:
        digest = container.source.digest
        return {"name": container.source.uri} | ({"digest": digest} if digest else {})
    match = _DIGEST.search(container.image)
    return {"name": container.image} | ({"digest": match[1]} if match else {})
