"""`dlrun why` on logs with the words of real libraries: cause, way out, evidence; also where another end is noted first."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.why.command import lines
from dlrun.why.diagnose import Cause, answer
from dlrun.why.known.causes import CAUSES
from dlrun.why.known.table import WRITERS, of_writer
from dlrun.why.matching import Table
from dlrun.why.verdict import plain, verdict
from tests.examples import cases
from tests.unit.why.reported import CASES, JOBS, NO_THREAD, Case

LOST = (
    """[rank0]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:94
[rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
""",
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.1.2.3]:34421\n",
    """*** An error occurred in MPI_Allreduce
[n2][[51384,1],7][btl_tcp.c:559:mca_btl_tcp_recv_blocking] recv(25) failed: Connection reset by peer (104)
""",
    """WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 88 closing signal SIGTERM
torch.distributed.elastic.multiprocessing.api.SignalException: Process 87 got signal: 15
""",
)
"""What ranks print that only lost another one, or were ended with it."""
SYMPTOMS = {
    "communication",
    "peer-lost",
    "collective-timeout",
    "terminated",
    "unknown",
    "mpi-abort",
    "mpi-ended",
    "rendezvous-closed",
}
ROOTS = [case for case in CASES if case.cause not in SYMPTOMS]


def job_of(run: Path) -> Job:
    return Job(directory=run, name="x", site="s", scheduler="slurm", job_id="8", submitted=None, array=None)


def asked(run: Path, logs: dict[int, str], order: list[int]) -> Cause:
    """What `why` answers: the logs of ranks, and the ranks in the order in which their ends are noted."""
    (run / "logs").mkdir(parents=True)
    (run / "failures").mkdir()
    (run / "logs" / "job.log").touch()
    for rank, text in logs.items():
        (run / "logs" / f"rank-{rank}.log").write_text(text, "utf-8")
    for number, rank in enumerate(order):
        note = f"{1795230000000000000 + number * 1000000} rank {rank} n{rank} 1\n"
        (run / "failures" / f"rank-{rank}").write_text(note)
    return answer(job_of(run), JobStatus(job_id="8", state=State.FAILED, exit_code=1), run)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.writer}-{case.name}")
def test_the_cause_the_way_out_and_the_evidence(case, tmp_path):
    found = asked(tmp_path, {0: case.log}, [0])
    assert found.cause == case.cause, (found.means, found.line)
    assert case.line in (found.line or "")
    assert case.way.lower() in found.next.lower()
    assert found.last == tuple([plain(line) for line in case.log.splitlines() if line.strip()][-3:])
    assert found.last[-1].strip()[:90] in plain("\n".join(lines(job_of(tmp_path), found)))


@pytest.mark.parametrize("case", cases(ROOTS, quick=100), ids=lambda case: f"{case.writer}-{case.name}")
def test_the_rank_that_only_lost_another_is_not_the_first(case, tmp_path):
    """Its end is noted earlier, as it has less to clean up."""
    number = ROOTS.index(case)
    lost = {0: LOST[number % 4], 2: LOST[(number + 1) % 4]}
    found = asked(tmp_path, {**lost, 1: "step 7 loss 2.1\n", 3: "step 7 loss 2.1\n" + case.log}, [2, 0, 3])
    assert found.cause == case.cause, (found.means, found.line)
    assert found.first is not None
    assert found.first.rank == 3
    assert found.last_log == "logs/rank-3.log"


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.case.name)
def test_a_job_of_several_ranks(job, tmp_path):
    """The ends are noted in the order of the file: the rank with the root is not the first of them."""
    found = asked(tmp_path, job.logs, job.order)
    assert found.cause == job.case.cause, (found.means, found.line)
    assert job.case.line in (found.line or "")
    assert job.case.way.lower() in found.next.lower()
    assert found.first is not None
    assert found.first.rank == job.first


def test_the_code_that_a_traceback_shows_is_not_what_was_raised(tmp_path):
    log = """[1,0]<stderr>:Traceback (most recent call last):
[1,0]<stderr>:  File "/w/store.py", line 31, in put
[1,0]<stderr>:    raise StoreError("No space left on device" if full else reason)
[1,0]<stderr>:store.StoreError: the server is closed
"""
    found = asked(tmp_path, {0: log}, [0])
    assert (found.cause, found.line) == (
        "exception",
        "[1,0]<stderr>:store.StoreError: the server is closed",
    )


def test_an_exception_of_an_unknown_kind_names_the_call_of_the_program(tmp_path):
    log = """Traceback (most recent call last):
  File "/w/train.py", line 31, in main
    engine.tune(model)
  File "/e/lib/python3.11/site-packages/fastengine/core.py", line 7, in tune
    raise EngineError("odd phase")
fastengine.EngineError: odd phase
"""
    found = asked(tmp_path, {0: log}, [0])
    assert (
        "compare the call at /w/train.py line 31 with the documentation of the installed version of `fastengine`"
        in found.next
    )


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Using the `Trainer` with `DeepSpeed` requires it: run `pip install deepspeed`", "missing-module"),
        ("cannot import name 'Shard' from 'torch': try `pip install -U torch`", "build-mismatch"),
        ("ext.so: undefined symbol: _ZN3c10; reinstall with `pip install flash-attn`", "build-mismatch"),
    ],
)
def test_a_package_to_install_is_missing_unless_the_error_is_about_one_that_is_there(
    message, cause, tmp_path
):
    assert asked(tmp_path, {0: f"ImportError: {message}\n"}, [0]).cause == cause


@pytest.mark.parametrize(
    ("message", "local"),
    [
        ("redis.exceptions.ConnectionError: Error -2 connecting to n12:6379. Name or service not known.", True),
        ("urllib.error.URLError: <urlopen error [Errno 111] Connection refused>", True),
        ("requests.exceptions.ConnectTimeout: HTTPConnectionPool(host='10.12.0.4', port=50): Max retries exceeded", True),
        ("requests.exceptions.ConnectionError: HTTPConnectionPool(host='n3', port=50): Failed to resolve 'n3'", True),
        ("aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host localhost:30000 ssl:default", True),
        ("urllib.error.URLError: <urlopen error [Errno -2] Name or service not known>", False),
        ("requests.ConnectionError: HTTPSConnectionPool(host='a.example.org', port=4): Max retries exceeded with url: /x", False),
        ("aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host a.example.org:443 ssl:default", False),
    ],
)  # fmt: skip
def test_a_server_of_the_cluster_that_does_not_answer_is_not_the_internet(message, local, tmp_path):
    log = f'Traceback (most recent call last):\n  File "/w/client.py", line 9, in call\n    post(x)\n{message}\n'
    found = asked(tmp_path, {0: log}, [0])
    assert found.cause == "no-network"
    assert ("a server that the program calls" in found.means) == local, found.means
    assert ("HF_HUB_OFFLINE" in found.next) != local


RULE = "-" * 74
WARNED = f"""{RULE}
By default, for Open MPI 4.0 and later, infiniband ports on a device
are not used by default.
{RULE}
"""


@pytest.mark.parametrize(
    "log",
    [
        WARNED,
        f"{RULE}\nThe specified mapping policy is not recognized:\n{RULE}\n" + "step\n" * 20,
        f"{RULE}\nop name ........ installed .. compatible\n{RULE}\nasync_io ... [NO] ... [OKAY]\n",
    ],
)
def test_what_stands_between_rules_is_the_cause_only_at_the_end_and_if_it_is_an_error(log, tmp_path):
    assert asked(tmp_path, {0: log}, [0]).cause == "unknown"


def test_a_module_that_the_script_did_not_load_is_why_a_rank_has_no_library(tmp_path):
    missing = (
        "./train: error while loading shared libraries: libcudart.so.12: cannot open shared object file\n"
    )
    run = tmp_path / "run"
    (run / "logs").mkdir(parents=True)
    (run / "failures").mkdir()
    (run / "logs" / "job.log").write_text(
        'Lmod has detected the following error:  The following module(s) are unknown: "cuda/12.4"\n'
    )
    (run / "logs" / "rank-0.log").write_text("step 1\n" * 50 + missing)
    (run / "failures" / "rank-0").write_text("1795230000000000000 rank 0 n0 127\n")
    found = answer(job_of(run), JobStatus(job_id="8", state=State.FAILED, exit_code=127), run)
    assert (found.cause, found.log) == ("environment-module", "logs/job.log")
    assert "cuda/12.4" in found.means
    assert "libcudart.so.12" in found.means
    (run / "logs" / "job.log").write_text("modules are loaded\n")
    found = answer(job_of(run), JobStatus(job_id="8", state=State.FAILED, exit_code=127), run)
    assert found.cause == "missing-library"


def test_there_are_many_and_each_has_its_source():
    """Of `public.txt`, a text without a public thread has those words: its program prints it, and an address would be made up."""
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)
    without = {case.name for case in CASES if not case.source.startswith("https://")}
    assert without == {case.name for case in CASES if case.writer == "public" and case.source == NO_THREAD}
    assert {case.cause for case in CASES} - {"unknown", "exception", "reported"} <= set(CAUSES)


def test_each_cause_is_used():
    used = {pattern.cause for writer in WRITERS for pattern in of_writer(writer)}
    assert used == set(CAUSES)


def test_a_case_is_a_case():
    assert all(isinstance(case, Case) and case.log for case in CASES)


@pytest.mark.parametrize(
    ("name", "means"),
    [
        (
            "chain",
            "raised KeyError: 'warmup_ratio' (/w/conf.py line 12, in load); then acme.ConfigProblem: could not",
        ),
        ("lib", "have a grad_fn (in torch/autograd/__init__.py, called by /w/train.py line 31, in main)"),
        ("rust", "says: thread 'main' panicked at src/data/reader.rs:212:31: shard index 14 exceeds 12"),
        ("json", "says: optimizer state has 3 groups, model has 2"),
    ],
)
def test_an_error_that_no_table_knows_is_told_as_the_log_has_it(name, means, tmp_path):
    (case,) = [case for case in CASES if case.name == f"says-{name}"]
    assert means in asked(tmp_path, {0: case.log}, [0]).means


def test_an_exception_without_a_message_is_told_with_its_code(tmp_path):
    log = """Traceback (most recent call last):
  File "/w/train.py", line 31, in main
    assert len(batch) == world * micro
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
AssertionError
"""
    assert "AssertionError at `assert len(batch) == world * micro`" in asked(tmp_path, {0: log}, [0]).means


def test_a_message_is_told_with_the_line_in_which_it_goes_on(tmp_path):
    log = "pydantic_core._pydantic_core.ValidationError: 1 validation error for C\nlr\n  Input should be a number\n"
    assert "for C lr Input should be a number" in asked(tmp_path, {0: log}, [0]).means


def test_what_a_message_advises_is_the_way_out_and_an_equal_exception_is_told_once(tmp_path):
    log = """Traceback (most recent call last):
  File "/w/dm.py", line 77, in load
    return table[name]
ValueError: no split 'vali'. Please pass one of train, valid.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/t.py", line 7, in main
    load()
  File "<frozen codecs>", line 3, in decode
ValueError: no split 'vali'. Please pass one of train, valid.
"""
    found = asked(tmp_path, {0: log}, [0])
    assert found.means.endswith(
        "no split 'vali'. Please pass one of train, valid. (/w/dm.py line 77, in load)"
    )
    assert found.next.startswith("its own advice: Please pass one of train, valid;")


def test_the_rank_that_says_why_comes_before_one_that_says_that_it_lost_it(tmp_path):
    lost = "ERROR trainer: lost connection to worker 3\n"
    why = "ERROR trainer: shard 14 has no index\n"
    found = asked(tmp_path, {0: lost, 3: why}, [0, 3])
    assert "shard 14 has no index" in found.means
    assert found.first is not None
    assert found.first.rank == 3


@pytest.mark.parametrize(("code", "cause"), [(139, "segmentation-fault"), (134, "reported"), (1, "reported")])
def test_what_a_program_printed_before_a_signal_ended_it_is_not_the_cause(code, cause, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "failures").mkdir()
    (tmp_path / "logs" / "job.log").touch()
    (tmp_path / "logs" / "rank-0.log").write_text("ERROR trainer: no such metric: bleu\n")
    (tmp_path / "failures" / "rank-0").write_text(f"1795230000000000000 rank 0 n0 {code}\n")
    found = answer(job_of(tmp_path), JobStatus(job_id="8", state=State.FAILED, exit_code=code), tmp_path)
    assert found.cause == cause


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("says-thrown", "raised Xbyak::Error: internal error"),
        ("tf-root-error", "InternalError: Internal:  internal error [[node Adam/NcclAllReduce_8"),
        ("second-attempt-port", "; at the next attempt: a file or directory existed already"),
        ("enroot-no-squashfuse", "`squashfuse` does not exist"),
        ("nccl-cuda-not-begun", "a CUDA or HIP call of NCCL failed: initialization error"),
        ("store-barrier", "is much slower (6 of 8 came)"),
        ("store-barrier-twice", "more processes came than the group has ranks: 4 for 2"),
        ("monitored-ranks", "(missing: rank 4-7)"),
        ("desync-report", "rank 7 did not take part"),
        ("jax-barrier-tasks", "in time (missing: task 0,3)"),
        ("triton-fp8", "CompilationError: at 10:8:; it began with ValueError: type fp8e4nv not supported"),
        ("ray-socket-path", "too long for a socket (108 characters); later: a Ray process did not find"),
    ],
)
def test_the_meaning_has_what_it_began_with(name, says, tmp_path):
    (case,) = [case for case in CASES if case.name == name]
    assert says in asked(tmp_path, {0: case.log}, [0]).means


ENDED_BY_SLURM = """srun: Job step aborted: Waiting up to 4 seconds for job step to finish.
slurmstepd-n1: error: *** STEP 1.0 ON n1 FAILED (non-zero exit code or other failure mode) ***
srun: error: n1: task 0: Exited with exit code 255
srun: launch/slurm: _step_signal: Terminating StepId=1.0
srun: error: n2: task 1: Exited with exit code 143
""".splitlines(keepends=True)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [1, 0, 2, 3, 4], [1, 0, 4, 3, 2], [0, 1, 4, 3, 2]])
def test_what_slurm_prints_when_it_ends_a_step_is_no_cause(order, tmp_path):
    """A job script that was killed leaves no note, and of its step only these lines (Slurm 22.05, in any order)."""
    (tmp_path / "logs").mkdir()
    text = "".join(ENDED_BY_SLURM[at] for at in order)
    assert verdict(text.splitlines(), Table(), "").pattern.cause == "mpi-ended"
    (tmp_path / "logs" / "job.log").write_text(text)
    assert of_a_killed_script(tmp_path).cause == "killed"


def test_what_a_job_printed_is_not_why_its_script_was_killed(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "job.log").write_text("some_daemon: connection lost, exiting\n")
    assert of_a_killed_script(tmp_path).cause == "killed"


def of_a_killed_script(run: Path) -> Cause:
    return answer(job_of(run), JobStatus(job_id="8", state=State.FAILED, exit_code=None, signal=9), run)
