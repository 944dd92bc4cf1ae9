"""Which logs of a job on a login node `dlrun why` looks into."""

from __future__ import annotations

from dlrun.jobs.remote.target import RemoteFile
from dlrun.why.remote_evidence import _chosen


def test_a_rank_of_thousands_that_ended_too_early_is_looked_into(tmp_path):
    """Ranks that print nothing fell silent before it, and others wrote after the failure."""
    begun, failed = 1_795_230_000, 1_795_233_600
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures/rank-4000").write_text(f"{failed}000000000 rank 4000 n9 1\n")
    written = dict.fromkeys(range(5000), begun) | dict.fromkeys(range(3000, 5000), failed + 30)
    written |= {1234: failed - 20, 4000: failed}
    logs = [
        RemoteFile(name=f"logs/{rank // 1000}/rank-{rank}.log", size=100_000, mtime_ns=at * 10**9, link=False)
        for rank, at in written.items()
    ]
    assert {"logs/1/rank-1234.log", "logs/4/rank-4000.log"} <= set(_chosen(logs, tmp_path))
