"""The test of a communication library that `dlrun verify` runs in each rank, as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

ALONE = "import sys; from dlrun.node.checks import library_check; sys.exit(library_check.main(sys.argv[1:]))"


def ranks(tmp_path, *ways: str, world: int = 2, modules: str = "") -> list[dict]:
    """What each rank prints."""
    told = {"DLRUN_RUN_DIR": str(tmp_path), "DLRUN_RUN_ID": "1.0", "DLRUN_MASTER_ADDR": "127.0.0.1"}
    started = []
    for rank in range(world):
        mine = {"DLRUN_RANK": str(rank), "DLRUN_LOCAL_RANK": "0", "DLRUN_WORLD_SIZE": str(world)}
        environment = {**os.environ, **told, **mine, "PYTHONPATH": modules}
        line = [sys.executable, "-c", ALONE, *ways]
        started.append(subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True))
    said = [one.communicate(timeout=240)[0] for one in started]
    assert [one.returncode for one in started] == [0] * world
    lines = [line for text in said for line in text.splitlines()]
    return [json.loads(line.partition("dlrun-library ")[2]) for line in lines if "dlrun-library " in line]


def test_without_a_library_a_rank_says_so(tmp_path):
    assert ranks(tmp_path, "no_such_module") == [{"rank": 0}, {"rank": 1}]


FAILED = "each rank is alone: MPI has 1 rank, not 2; its process manager is not that of the launcher"
FAKE_MPI = """\
import os
class COMM_WORLD:
    Get_size = staticmethod(lambda: int(os.environ["SIZE"]))
    Allreduce = staticmethod(lambda mine, sums: sums.__setitem__(slice(None), type(sums)("i", [3]) * len(sums)))
    sendrecv = staticmethod(lambda mine, dest, source: source)
Get_library_version = lambda: "Open MPI v4.1.4, package\\n"
"""


def fake_mpi(tmp_path) -> str:
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py/__init__.py").write_text("")
    (tmp_path / "mpi4py/MPI.py").write_text(FAKE_MPI)
    return str(tmp_path)


def test_mpi_is_tried_where_it_is_named_first(tmp_path, monkeypatch):
    monkeypatch.setenv("SIZE", "2")
    zero, one = ranks(tmp_path, "mpi4py", "torch", modules=fake_mpi(tmp_path))
    assert zero == {"rank": 0, "by": "Open MPI v4.1.4", "backend": "mpi", "sums": [3, 3], "before": 1}
    assert one["before"] == 0


def test_mpi_that_started_every_rank_by_itself_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("SIZE", "1")
    zero, _ = ranks(tmp_path, "mpi4py", modules=fake_mpi(tmp_path))
    assert zero == {"rank": 0, "by": "mpi4py", "failed": FAILED}
