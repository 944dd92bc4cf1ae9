"""Hosts for the runs of one test process, and the rows' environments, made when first needed."""

from __future__ import annotations

import os

import pytest

from tests.cluster import why_not
from tests.frameworks.hosts import Hosts
from tests.frameworks.install import environment, why_not as why_not_installed


@pytest.fixture(scope="session")
def hosts():
    """Two hosts, up while this process runs tests."""
    if reason := why_not():
        pytest.skip(reason)
    with Hosts(f"fw-{os.getpid()}") as running:
        yield running


@pytest.fixture
def venv():
    """The environment of a row by its name; skips the test by name where it cannot be made here."""

    def find(row):
        if reason := why_not_installed(row):
            pytest.skip(reason)
        return environment(row)

    return find
