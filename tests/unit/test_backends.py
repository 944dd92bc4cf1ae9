"""Back ends of other packages: one that lacks what this version asks for is an error of that package."""

from __future__ import annotations

import importlib
import importlib.metadata
from types import SimpleNamespace

import pytest

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.frameworks.common import defaults
from dlrun.launchers import protocol, ssh


def of_another_package(monkeypatch, name, **parts):
    point = SimpleNamespace(name=name, load=lambda: SimpleNamespace(**parts))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [point])


def test_one_that_lacks_a_part_is_named(monkeypatch):
    parts = {name: part for name, part in vars(ssh).items() if name != "IDENTITY"}
    of_another_package(monkeypatch, "old", **parts)
    with pytest.raises(Invalid, match=r"launcher `old` of another package .* lacks `IDENTITY`"):
        backends.launcher("old")


def test_a_whole_one_is_taken(monkeypatch):
    of_another_package(monkeypatch, "new", **vars(ssh))
    assert backends.launcher("new").NAME == "ssh"


@pytest.mark.parametrize(
    ("table", "kind"),
    [(backends.LAUNCHERS, protocol), (backends.FRAMEWORKS, defaults)],
    ids=["launchers", "frameworks"],
)
def test_none_writes_what_is_the_default(table, kind):
    optional = {part: getattr(kind.Defaults, part) for part in kind.MEMBERS if hasattr(kind.Defaults, part)}
    same = [
        f"{path}: {part}"
        for path in table.values()
        for part, default in optional.items()
        if vars(importlib.import_module(path.partition(":")[0])).get(part, ...) == default
    ]
    assert same == []
