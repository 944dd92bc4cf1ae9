"""The script of a local job ends with its supervisor."""

from __future__ import annotations

import os
import subprocess
from functools import partial

from dlrun.node.supervise import end_with


def test_a_script_whose_supervisor_was_killed_before_it_could_ask_for_a_signal_does_not_start():
    def started(supervisor: int) -> int:
        return subprocess.run(["true"], preexec_fn=partial(end_with, supervisor), check=False).returncode

    assert started(os.getpid()) == 0
    assert started(1) == 128 + 15
