"""Back ends of other packages: one that lacks what this version asks for is an error of that package."""

from __future__ import annotations

import importlib.metadata
from types import SimpleNamespace

import pytest

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.launchers import ssh


def of_another_package(monkeypatch, name, **parts):
    point = SimpleNamespace(name=name, load=lambda: SimpleNamespace(**parts))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [point])


def test_one_that_lacks_a_part_is_named(monkeypatch):
    parts = {name: part for name, part in vars(ssh).items() if name != "LIBRARIES"}
    of_another_package(monkeypatch, "old", **parts)
    with pytest.raises(Invalid, match=r"launcher `old` of another package .* lacks `LIBRARIES`"):
        backends.launcher("old")


def test_a_whole_one_is_taken(monkeypatch):
    of_another_package(monkeypatch, "new", **vars(ssh))
    assert backends.launcher("new").NAME == "ssh"
