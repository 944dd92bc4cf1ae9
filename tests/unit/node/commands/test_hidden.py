"""Entries get their places while another job on the node gives its own, which are alike, theirs."""

from __future__ import annotations

import os
from pathlib import Path

from dlrun.node.commands.hidden import _move


def test_a_place_that_another_job_takes_after_the_look(tmp_path, monkeypatch):
    mine, node = tmp_path / "mine", tmp_path / "node"
    for path in ("triton/one/kernel", "triton/one/more", "jax/entry"):
        (mine / path).parent.mkdir(parents=True, exist_ok=True)
        (mine / path).write_text(path)
    (mine / "inductor").mkdir()
    (mine / "inductor" / "graph").write_text("graph")

    def taken_then(path: str) -> bool:
        """Nothing is there; then the other job gives this place, with the same entry below it, to its own."""
        place = Path(path)
        source = mine / place.relative_to(node)
        if source.is_dir():
            entry = next(one for one in sorted(source.rglob("*")) if one.is_file())
            other = node / entry.relative_to(mine)
            other.parent.mkdir(parents=True, exist_ok=True)
            other.write_text(entry.read_text())
        return False

    monkeypatch.setattr(os.path, "lexists", taken_then)
    _move(str(mine), str(node))
    found = sorted(str(path.relative_to(node)) for path in node.rglob("*") if path.is_file())
    assert found == ["inductor/graph", "jax/entry", "triton/one/kernel", "triton/one/more"]
    assert all((node / path).read_text() in (path, "graph") for path in found)
