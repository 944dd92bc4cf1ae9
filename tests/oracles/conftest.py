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
def hydra(oracles):
    need(oracles, "hydra")
    return oracles.hydra


@pytest.fixture(params=["gomp", "iomp"])
def openmp(request, oracles):
    """Name and library of an OpenMP runtime, and the shim that shows it another machine."""
    need(oracles, request.param, "shim")
    return request.param, getattr(oracles, request.param), oracles.shim
