"""An error while the output is still in dlrun's buffer, and its reader has left: the exit code is the error's."""

from __future__ import annotations

import resource

from tests import forked
from tests.fuzz.surroundings import _apply


def test_the_rest_of_the_output_does_not_change_the_exit_code(tmp_path, monkeypatch):
    from dlrun.cli import main

    def fails(*_, **__):
        print("an answer")
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(main.group, "main", fails)
    for streams in ({1: "broken"}, {1: "broken", 2: "unreadable"}, {1: "full"}):
        done = forked.run(
            ["keys"], tmp_path, before=_apply(streams, {resource.RLIMIT_NOFILE: 64}, None), seconds=20
        )
        assert done.code == 1, (streams, done)
