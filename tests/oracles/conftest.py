"""The oracles, installed once a session; a test that needs one that is absent is skipped by its name."""

from __future__ import annotations

import pytest

from tests.oracles.install import Oracles, install


@pytest.fixture(scope="session")
def oracles() -> Oracles:
    return install()


def need(oracles: Oracles, *names: str) -> None:
    for name in names:
        if getattr(oracles, name) is None:
            pytest.skip(f"oracle `{name}` is not here: {oracles.why or 'could not be installed'}")


@pytest.fixture
def impi(oracles):
    need(oracles, "impi")
    return oracles.impi


@pytest.fixture
def openmpi(oracles):
    need(oracles, "openmpi")
    return oracles.openmpi


@pytest.fixture
def openmpi5(oracles):
    need(oracles, "openmpi5")
    return oracles.openmpi5


@pytest.fixture
def hydra(oracles):
    need(oracles, "hydra")
    return oracles.hydra


@pytest.fixture
def flux(oracles):
    need(oracles, "flux")
    return oracles.flux


@pytest.fixture
def gomp(oracles):
    """GNU's OpenMP runtime, as `openmp` gives it."""
    need(oracles, "gomp", "shim")
    return "gomp", oracles.gomp, oracles.shim


@pytest.fixture
def iomp(oracles):
    """Intel's OpenMP runtime, as `openmp` gives it."""
    need(oracles, "iomp", "shim")
    return "iomp", oracles.iomp, oracles.shim


@pytest.fixture(params=["gomp", "iomp"])
def openmp(request):
    """Name and library of an OpenMP runtime, and the shim that shows it another machine."""
    return request.getfixturevalue(request.param)
