"""Where processes log: what a job of many ranks opens, and what its script and dlrun find again."""

from __future__ import annotations

import subprocess

import pytest

from dlrun.jobs.logs import files as log_files
from dlrun.plan import log_names
from dlrun.why import evidence
from tests.library import BASH, call
from tests.making import NODES, SLURM, plan_of, write_job

SPEC = """\
command: [bash, -c, 'echo rank $DLRUN_RANK; ((DLRUN_RANK == 1004)) || exit 0; echo ConnectionError: lost; exit 9']
placement: {bind: none}
"""
RANKS = (0, 7, 999, 1000, 1004, 1005)


@pytest.mark.parametrize("logs", ["rank", "node"])
@pytest.mark.parametrize(("nodes", "ranks"), [(252, 1006), (125, 500)])
def test_logs_are_where_they_are_looked_for(tmp_path, logs, nodes, ranks):
    """Some ranks of a job, as srun starts them; four on a node, two on the last."""
    resources = f"resources: {{nodes: {nodes}, ranks_per_node: 4, ranks: {ranks}}}\n"
    plan = plan_of(tmp_path, f"logs: {logs}\n{SPEC}{resources}", SLURM + NODES, directory=str(tmp_path))
    write_job(plan, tmp_path)
    (tmp_path / "logs").mkdir(exist_ok=True)
    for line in (tmp_path / "job.sh").read_text().splitlines():
        if line.startswith("dlrun_spread_logs "):
            call(tmp_path, line)
    (tmp_path / "failures").mkdir()
    (tmp_path / "ended").mkdir()
    chosen = [rank for rank in RANKS if rank < ranks]
    for rank in chosen:
        ran = subprocess.run(
            [BASH, tmp_path / "rank.sh", "rank"], env={
                "PATH": "/usr/bin:/bin", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % 4),
                "SLURM_NODEID": str(rank // 4),
                "DLRUN_JOB_DIR": str(tmp_path), "DLRUN_RUN_DIR": str(tmp_path), "DLRUN_RUN_ID": "7.0", "DLRUN_JOB_ID": "7",
                "DLRUN_MASTER_ADDR": "n1", "DLRUN_MASTER_PORT": "29500", "DLRUN_NODES": str(nodes), "DLRUN_RESTART": "0",
            }, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert ran.returncode == (9 if rank == 1004 else 0), ran.stderr
        name = f"logs/{log_names.name(plan.roles[0], rank, plan.logs)}"
        (log,) = log_files.find(tmp_path, str(rank))
        said = [line for line in log_files.text(log) if not line.startswith("dlrun: ")]
        assert (log.name, said) == (name, [f"rank {rank}\n", *["ConnectionError: lost\n"] * (rank == 1004)])
        printed = call(tmp_path, f"_dlrun_log_of rank {rank}").stdout
        assert f"logs/{printed}" == name
    assert len(log_files.find(tmp_path, "all")) >= len(chosen)
    ended = {path.name for path in (tmp_path / "ended").iterdir()}
    noted = chosen if ranks <= 1000 else [0]  # one more file to create for each
    assert ended == {f"rank-{rank}" for rank in noted}
    if 1004 in chosen:
        report = call(tmp_path, "_dlrun_report_first_failure").stdout
        assert "the end of logs/1/rank-1004" in report
        assert "\n  | rank 1004\n" in report
        early = evidence.search(tmp_path).early
        assert [one.rank for one in early] == [0, 7, 999, 1000]  # not 1005, which ended after the failure


def test_why_logs_are_spread_is_explained(tmp_path):
    plan = plan_of(tmp_path, "resources: {nodes: 300, ranks_per_node: 4}\n", SLURM + NODES)
    (said,) = [one for one in plan.decisions if one.key == "logs"]
    assert "directory for each 1000 ranks" in said.because
