"""Each framework's own virtual environment, from its recipe: `python -m tests.frameworks.install [ROW... | --quick]`."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from tests.programs import fault, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "venvs"
"""Where the environments are kept; a stamp in each names the recipe that it was made from."""


class InstallError(Exception):
    """A row's environment cannot be made here; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to install: an interpreter's version, what a build needs first, the packages, a source to patch.

    `programs` must be there; `links` are names, in `links/`, under which system libraries are looked for.
    """

    packages: tuple[str, ...]
    python: str = "3.11"
    before: tuple[str, ...] = ()
    isolated: bool = True
    programs: tuple[str, ...] = ()
    source: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()


_TORCH = ("torch==2.13.0", "numpy==2.4.6")

RECIPES: Mapping[str, Recipe] = {
    "torch": Recipe(packages=_TORCH),
    "mxnet": Recipe(packages=("mxnet==1.9.1", "numpy==1.23.5")),
    "tensorflow": Recipe(packages=("tensorflow-cpu==2.21.0", "tf_keras==2.21.0")),
    "chainermn": Recipe(
        python="3.9",
        before=("setuptools<66", "wheel"),
        packages=("chainer==7.8.1", "numpy==1.23.5", "mpi4py==4.1.2"),
        isolated=False,
        programs=("mpirun",),
    ),
    "mpi": Recipe(
        packages=("mpi4py==4.1.2", "numpy==2.4.6"),
        programs=("mpirun.openmpi", "mpiexec.hydra"),
        links=(("libmpi.so.12", "libmpich.so.12"),),
    ),
    "intelmpi": Recipe(packages=("impi-rt==2021.18.1", "mpi4py==4.1.2", "numpy==2.4.6")),
    "horovod": Recipe(
        before=(
            *_TORCH, "setuptools<81", "wheel", "cloudpickle", "psutil", "pyyaml", "packaging", "cffi",
        ),
        packages=(),
        isolated=False,
        programs=("mpirun", "mpicxx", "cmake"),
        source="horovod==0.28.1",
        environment=(
            ("HOROVOD_WITH_PYTORCH", "1"), ("HOROVOD_WITH_MPI", "1"), ("HOROVOD_WITH_GLOO", "1"),
            ("HOROVOD_WITHOUT_TENSORFLOW", "1"), ("HOROVOD_WITHOUT_MXNET", "1"), ("MAKEFLAGS", "-j2"),
        ),
    ),
    "jax": Recipe(packages=("jax==0.10.2", "numpy==2.4.6")),
    "compilers": Recipe(packages=("jax==0.10.2", "numba==0.68.1", "triton==3.9.0", "numpy==2.4.6")),
    "paddle": Recipe(packages=("paddlepaddle==3.3.1",)),
    "accelerate": Recipe(packages=(*_TORCH, "accelerate==1.15.0")),
    "deepspeed": Recipe(
        before=(*_TORCH, "setuptools<81", "wheel", "ninja", "py-cpuinfo", "psutil", "packaging"),
        packages=("deepspeed==0.19.8",),
        isolated=False,
    ),
    "lightning": Recipe(packages=(*_TORCH, "lightning==2.6.6")),
    "ray": Recipe(packages=(*_TORCH, "ray[train]==2.60.0")),
    "h2o": Recipe(packages=("h2o==3.46.0.12", "setuptools<81"), programs=("java",)),
    "spark": Recipe(packages=("pyspark==4.3.0", "numpy==2.4.6"), programs=("java",)),
    "cntk": Recipe(
        python="3.6",
        packages=("cntk==2.7", "numpy==1.19.5"),
        programs=("mpirun.openmpi",),
        links=(("libmpi.so.12", "libmpi.so.40"), ("libmpi_cxx.so.1", "libmpi_cxx.so.40")),
    ),
    "mesh_tensorflow": Recipe(
        python="3.7",
        packages=("mesh-tensorflow==0.1.21", "tensorflow==1.15.5", "numpy==1.18.5", "protobuf==3.20.3"),
    ),
}  # fmt: skip
"""By row; versions are those that were seen to work together."""

SLOW = (
    "paddle",
    "jax",
    "accelerate",
    "deepspeed",
    "lightning",
    "cntk",
    "mesh_tensorflow",
    "ray",
    "spark",
    "h2o",
)
"""Rows that take minutes to install or to start: their tests are marked `slow`."""


def interpreter(version: str) -> str | None:
    """A Python of this version: on the PATH, or among pyenv's; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(pyenv.glob(f"{version}.*/bin/python"))
    for candidate in (f"python{version}", sys.executable, *map(str, found)):
        program = shutil.which(candidate)
        ask = "import sys; print('Python %d.%d.' % sys.version_info[:2])"
        if program is not None and not fault([program, "-c", ask], f"Python {version}."):
            return program
    return None


def why_not(row: str) -> str:
    """What a row needs of the machine and does not find, or nothing."""
    recipe = RECIPES[row]
    if interpreter(recipe.python) is None:
        return f"{row} needs Python {recipe.python}, and there is none here"
    for program in recipe.programs:
        if wrong := path_of(program)[1]:
            return f"{row} needs `{program}`: {wrong}"
    return ""


def ready(row: str) -> bool:
    """True if the environment stands as its recipe says."""
    stamp = CACHE / row / ".recipe"
    return stamp.exists() and stamp.read_text() == _digest(RECIPES[row])


def environment(row: str) -> Path:
    """The row's environment, made now if need be; raises InstallError."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{row}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready(row):
            if reason := why_not(row):
                raise InstallError(reason)
            _make(row, RECIPES[row])
    return CACHE / row


def _digest(recipe: Recipe) -> str:
    said = {f.name: value for f in fields(recipe) if (value := getattr(recipe, f.name)) != f.default}
    return hashlib.sha256(repr(said).encode()).hexdigest()


def _make(row: str, recipe: Recipe) -> None:
    home = CACHE / row
    shutil.rmtree(home, ignore_errors=True)
    log = CACHE / f"{row}.log"
    log.unlink(missing_ok=True)
    python = interpreter(recipe.python)
    assert python is not None
    _run(log, [python, "-m", "venv", str(home)])
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--prefer-binary"]
    extra = {"PATH": f"{home}/bin:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    extra |= dict(recipe.environment)
    if recipe.before:
        _run(log, [*pip, *recipe.before], extra)
    apart = [] if recipe.isolated else ["--no-build-isolation"]
    if recipe.packages:
        _run(log, [*pip, *apart, *recipe.packages], extra)
    if recipe.source:
        _run(log, [*pip, *apart, "--no-deps", str(_patched(log, pip, recipe.source, home, extra))], extra)
    for name, library in recipe.links:
        (home / "links").mkdir(exist_ok=True)
        (home / "links" / name).symlink_to(_library(library))
    (home / ".recipe").write_text(_digest(recipe))


def _library(name: str) -> str:
    """The path of a shared library, as the dynamic linker finds it."""
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for line in known.splitlines():
        if line.split()[:1] == [name]:
            return line.split()[-1]
    raise InstallError(f"{name} is not installed")


_PROJECT = "project(horovod CXX)"


def _patched(log: Path, pip: Sequence[str], source: str, home: Path, extra: Mapping[str, str]) -> Path:
    """A source distribution, unpacked, whose C++ is built as C++20: today's torch headers need that.

    And neither optimised nor with debugging information, which take most of the compiler's time: nothing is measured
    with it.
    """
    fetch = [*pip[:3], "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    _run(log, [*fetch, "--dest", str(home / "source"), source], extra)
    (archive,) = (home / "source").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python has it from 3.11.4 on
        packed.extractall(home / "source")
    unpacked = archive.with_name(archive.name.removesuffix(".tar.gz"))
    for listing in unpacked.rglob("CMakeLists.txt"):
        text = listing.read_text()
        for old in ("11", "14", "17"):
            text = text.replace(f"CMAKE_CXX_STANDARD {old}", "CMAKE_CXX_STANDARD 20")
        listing.write_text(text.replace(_PROJECT, f'{_PROJECT}\nset(CMAKE_CXX_FLAGS_RELWITHDEBINFO "")'))
    return unpacked


def _run(log: Path, command: Sequence[str], extra: Mapping[str, str] | None = None) -> None:
    with log.open("ab") as stream:
        stream.write(f"$ {' '.join(command)}\n".encode())
        stream.flush()
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False,
            env={**os.environ, **(extra or {})},
        )  # fmt: skip
    if done.returncode != 0:
        words = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise InstallError(f"{log.stem} could not be installed; {log} ends with:\n{words}")


def main(words: Sequence[str]) -> int:
    """Install the named rows, or all; `--quick`: those that the whole test command uses, whatever cannot be made here."""
    quick = list(words) == ["--quick"]
    worst = 0
    for row in (row for row in RECIPES if row not in SLOW) if quick else words or RECIPES:
        begun = time.monotonic()
        try:
            environment(row)
        except InstallError as error:
            print(f"{row}: {error}", flush=True)
            worst = 1
        else:
            print(f"{row}: ready ({time.monotonic() - begun:.0f} s)", flush=True)
    return 0 if quick else worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
