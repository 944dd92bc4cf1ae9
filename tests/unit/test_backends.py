"""Back ends of other packages: one that lacks what this version asks for is an error of that package."""

from __future__ import annotations

import importlib
import importlib.metadata
from types import SimpleNamespace

import pytest

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.launchers import ssh
from dlrun.launchers.protocol import MEMBERS, Defaults


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


@pytest.mark.parametrize("name", backends.LAUNCHERS)
def test_no_launcher_writes_what_is_the_default(name):
    module = importlib.import_module(backends.LAUNCHERS[name])
    optional = [part for part in MEMBERS if hasattr(Defaults, part)]
    assert [part for part in optional if vars(module).get(part, ...) == getattr(Defaults, part)] == []
