"""A job for PBS: another follows this one, once; after a failure, which nodes are left."""

from __future__ import annotations

import pytest

from tests.library import call


@pytest.mark.parametrize(
    ("qsub", "job", "followed"), [("echo 10.login", "10.login\n", "9.login\n"), ("exit 1", None, None)]
)
def test_a_job_that_another_follows_is_marked_before_that_can_start(tmp_path, qsub, job, followed):
    seen = f"cat {tmp_path}/.followed >{tmp_path}/seen; {qsub}"
    lines = "DLRUN_JOB_ID=9.login; dlrun_source pbs resubmit; dlrun_resubmit qsub job.sh || true"
    call(tmp_path, f"PBS_EXEC={tmp_path}; {lines}", qsub=seen)
    assert (tmp_path / "seen").read_text() == "9.login\n"
    texts = [
        path.read_text() if path.exists() else None for path in (tmp_path / "job-id", tmp_path / ".followed")
    ]
    assert texts == [job, followed]


def test_a_job_that_another_has_followed_does_nothing(tmp_path):
    """PBS puts it back when a node has died, also after it had submitted the next one."""
    (tmp_path / ".followed").write_text("9.login\n")
    said = call(
        tmp_path, "DLRUN_JOB_ID=9.login; dlrun_source pbs resubmit; dlrun_exit_if_resubmitted; mkdir logs"
    ).stdout
    assert said == "dlrun: job 9.login has ended, and another has followed it: nothing needs to be done\n"
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("answers", "lost"),
    [
        ({}, ""),
        ({"n2": "exit 255"}, "n2"),
        ({"n2": "echo 'Permission denied (publickey).' >&2; exit 255"}, ""),
        ({"n2": "echo 'Host key verification failed.' >&2; exit 255"}, ""),
        ({"n1": "exit 255", "n2": "exit 255"}, ""),  # then it is ssh itself
    ],
)
def test_which_nodes_are_lost(tmp_path, answers, lost):
    (tmp_path / "hosts").write_text("n1\nn2\n")
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "rank-0").write_text(
        "1000 rank 0 n1 1\n"
    )  # its connection to the other one broke
    cases = " ".join(f"{host}) {answer} ;;" for host, answer in answers.items())
    ask = "dlrun_source lost-nodes; dlrun_ask_nodes ssh; DLRUN_FIRST_HOST=n1; _dlrun_find_lost_nodes; echo $_dlrun_reason"
    said = call(tmp_path, ask, ssh=f"case $1 in {cases} esac; [[ $2 == true ]]").stdout
    first = call(tmp_path, "_dlrun_failed_first").stdout
    if lost:
        assert said.splitlines() == [f"not answering any more: {lost}", "node failed"]
        assert first == f"999 node 0 {lost} 255 node failed: {lost} does not answer any more\n"
    else:
        assert (said, first) == ("\n", "1000 rank 0 n1 1\n")
