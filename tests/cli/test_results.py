"""Results that a program writes to node-local storage are on the shared file system when the job has ended."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def run(dlrun):
    """Run a line of bash with results; the job's directory and where the results are to be."""
    local = dlrun.place / "local disk"
    local.mkdir()
    (dlrun.place / "site.yaml").write_text(
        "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
        f"storage: {{node_local: {{path: '{local}', size: 1TB}}}}\n"
    )

    def ran(line: str, *, results: str = "", walltime: str = "1h", code: int = 0) -> tuple[Path, Path]:
        to = dlrun.place / "my results" / "here"
        job = dlrun.submit(
            f"site: site.yaml\nresources: {{ranks_per_node: 1, walltime: {walltime}}}\n"
            f"results: {{to: '{to}'{results}}}\ncommand: [bash, -c, '{line}']\n",
            "--wait",
            code=code,
        )
        assert "dlrun-" in (job / "job.sh").read_text()
        return job, to

    return ran


def left(dlrun) -> list[Path]:
    return list((dlrun.place / "local disk").glob("dlrun-*/.results-*"))


def test_they_come_and_the_node_is_left_clean(dlrun, run):
    _, to = run('mkdir -p "$DLRUN_RESULTS/a b"; echo done >"$DLRUN_RESULTS/a b/log"')
    assert (to / "a b" / "log").read_text() == "done\n"
    assert left(dlrun) == []


@pytest.mark.slow
def test_they_come_after_a_failure_too(run):
    _, to = run('echo model >"$DLRUN_RESULTS/checkpoint"; exit 7', code=7)
    assert (to / "checkpoint").read_text() == "model\n"


@pytest.mark.slow
def test_after_a_failure_they_stay_where_that_is_wanted(dlrun, run):
    job, to = run('echo model >"$DLRUN_RESULTS/checkpoint"; exit 7', results=", when: ok", code=7)
    assert list(to.iterdir()) == []
    (kept,) = left(dlrun)
    assert (kept / "checkpoint").read_text() == "model\n"
    assert str(kept) in (job / "logs" / "job.log").read_text(), "the user is told where they are"


@pytest.mark.slow
def test_they_come_before_the_walltime_ends(run):
    """The ranks are ended early enough: five seconds before the end and the time for the results."""
    job, to = run(
        'echo half >"$DLRUN_RESULTS/model"; sleep 600', results=", before_end: 30s", walltime="60s", code=124
    )
    assert (to / "model").read_text() == "half\n"
    log = (job / "logs" / "job.log").read_text()
    assert "the walltime is over: ending the ranks" in log
    assert log.index("ending the ranks") < log.index("copying the results")


@pytest.mark.slow
def test_what_cannot_be_brought_is_told_and_fails_the_job(dlrun, run):
    job, to = run('mkdir "$DLRUN_RESULTS/name"; echo 1 >"$DLRUN_RESULTS/name/f"; rmdir "{0}"; echo file >"{0}"'.format(
        dlrun.place / "my results" / "here"), code=1)  # fmt: skip
    assert to.is_file()
    assert "not all results were copied" in (job / "logs" / "job.log").read_text()
    assert left(dlrun) != []


def test_a_walltime_without_room_for_them_is_refused(dlrun):
    ran = dlrun("plan", dlrun.spec("command: [x]\nresources: {walltime: 6m}\nresults: /r\n"), code=2)
    assert "5m are reserved for copying the results, but the walltime is only 6m" in ran.stderr


@pytest.mark.slow
def test_a_failed_wait_ends_with_the_cause_and_status_counts_points(dlrun):
    spec = dlrun.spec("run: 'exit {{ code }}'\nsweep: {code: [0, 3, 0]}\nresources: {ranks_per_node: 1}\n")
    done = dlrun("submit", spec, "--wait", code=3)
    assert "failed with exit code 3" in done.stderr
    assert "next:  `dlrun logs" in done.stderr
    assert "3 of 3 points have ended: 2 completed, 1 failed" in dlrun("status", "latest").stderr
    assert "━" in dlrun("--color", "always", "status", "latest").stdout
