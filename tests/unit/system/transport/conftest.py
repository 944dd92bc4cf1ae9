"""A login node for tests, which is this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.system.transport.far import Far


@pytest.fixture
def far(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DLRUN_JOBS")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    there = Far(tmp_path)
    monkeypatch.chdir(there.tree)
    return there
