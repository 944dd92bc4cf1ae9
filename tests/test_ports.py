"""Ports that tests choose and bind later: several processes of tests run side by side."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

from tests import ports

HOLDS = """
import itertools
from tests import ports
ports._NEXT = itertools.count(5000)
print(ports.free_port("127.0.0.2"), flush=True)
input()
"""


def test_what_one_process_chose_and_has_not_bound_yet_another_does_not_get(monkeypatch):
    """Also where they choose it for other addresses: a program may bind it on all."""
    words, place = [sys.executable, "-c", HOLDS], Path(__file__).parents[1]
    with subprocess.Popen(
        words, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        theirs = int(other.stdout.readline())
        monkeypatch.setattr(ports, "_NEXT", itertools.count(theirs - 10000))
        assert ports.free_port() != theirs
        monkeypatch.setattr(ports, "_NEXT", itertools.count((theirs - 10000) // 2))
        assert theirs not in (first := ports.free_port(block=2), first + 1)
        other.communicate("\n")
