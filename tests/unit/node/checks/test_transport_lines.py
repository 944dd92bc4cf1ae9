"""What communication libraries say of their transport: recorded lines, and the watcher that follows logs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dlrun.fabrics.rules import TRANSPORTS
from dlrun.node.checks import transport_lines

CASES = sorted((Path(__file__).parents[3] / "captured" / "transports").glob("*.txt"))


def read(case: Path) -> tuple[str, list[str]]:
    source, answer, *lines = case.read_text("utf-8").splitlines()
    assert source.startswith("# ")
    return answer.removeprefix("# "), lines


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_recorded_lines(case):
    answer, lines = read(case)
    found = transport_lines.chosen(lines)
    assert (f"{found.library}: {found.transport}" if found else "nothing") == answer
    assert found is None or found.line in lines


def test_the_recorded_lines_cover_every_fabric_and_a_fall_back():
    seen = {read(case)[0].partition(": ")[2] for case in CASES}
    assert "tcp" in seen
    for fabric, transports in TRANSPORTS.items():
        assert seen & set(transports) or fabric == "omni-path", fabric


@pytest.mark.parametrize(
    ("fabric", "transport", "wrong"),
    [
        ("infiniband", "tcp", True),
        ("infiniband", "roce", True),
        ("infiniband", "ib", False),
        ("slingshot", "tcp", True),
        ("slingshot", "cxi", False),
        ("efa", "libfabric", False),
        ("ethernet", "tcp", False),
        ("infiniband", "fastrak", False),
    ],
)
def test_only_what_is_known_to_be_another_is_unexpected(fabric, transport, wrong):
    found = transport_lines.Chosen("NCCL", transport, True, "")
    assert transport_lines.unexpected(found, TRANSPORTS[fabric]) is wrong


def test_a_log_is_read_as_it_grows(tmp_path):
    path = tmp_path / "rank-0.log"
    log = transport_lines.GrowingLog(str(path))
    log.look()
    for piece in ("a:1:1 [0] NCCL INFO Using net", "work Socket", "\n"):
        assert log.reader.chosen is None
        with path.open("a") as stream:
            stream.write(piece)
        log.look()
    assert log.reader.chosen.transport == "tcp"


def words(action: str, expected: str) -> list[str]:
    program = (sys.executable, transport_lines.__file__)
    return [*program, action, "InfiniBand", expected, "rank", "2", "4", "load ofed"]


def watch(run: Path, action: str, expected: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        words(action, expected),
        env={"DLRUN_RUN_DIR": str(run), "DLRUN_HOSTS": str(run / "hosts")},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip


@pytest.fixture
def run(tmp_path):
    for name in ("logs", "failures", "ended"):
        (tmp_path / name).mkdir()
    (tmp_path / "hosts").write_text("n1\nn2\n")
    (tmp_path / "logs/rank-0.log").write_text("n1:1:1 [0] NCCL INFO Using network IB\n")
    (tmp_path / "logs/rank-2.log").write_text("n2:1:1 [0] NCCL INFO Using network Socket\n")
    return tmp_path


def test_one_node_that_fell_back_is_named_and_noted(run):
    done = watch(run, "fail", "ib")
    assert "NCCL uses InfiniBand verbs on n1\n" in done.stdout
    assert "fabric: rank 2: NCCL uses TCP sockets, but this is InfiniBand; load ofed" in done.stdout
    note = (run / "failures" / "fabric").read_text().split(maxsplit=5)
    assert note[1:5] == ["rank", "2", "n2", "1"]
    assert note[5].startswith("fabric: NCCL uses TCP sockets")


@pytest.mark.parametrize(("count", "place"), [(4, ""), (2002, "2/")])
def test_ranks_that_share_the_log_of_their_node(tmp_path, count, place):
    first = count - 2
    own, shared = transport_lines.log_paths(str(tmp_path), "rank", first, 2, count)
    assert (own, shared) == (
        f"{tmp_path}/{place}rank-{first}.log",
        f"{tmp_path}/{place}rank-{first}-{count - 1}.log",
    )
    Path(shared).parent.mkdir(exist_ok=True)
    Path(shared).write_text(
        f"rank {count - 1}:n2:1:1 [0] NCCL INFO Using network Socket\nrank {first}:n2:1:1 [0] NCCL INFO Using network IB\n"
    )
    log = transport_lines.GrowingLog(own, shared, f"rank {first}:")
    log.look()
    assert log.reader.chosen.transport == "ib"


def test_what_the_first_rank_alone_says_holds_for_all_and_nobody_waits_for_the_rest(run):
    (run / "logs/rank-0.log").write_text("[0] MPI startup(): libfabric provider: mlx\n")
    (run / "logs/rank-2.log").write_text("")
    assert watch(run, "fail", "ib").stdout == "dlrun: fabric: Intel MPI uses InfiniBand verbs on n1, n2\n"


def test_once_one_is_wrong_the_others_have_a_moment_to_say_theirs(tmp_path, monkeypatch):
    """They start together, and a report of the first alone would call the others silent."""

    class Clock:
        now = 100.0
        time = staticmethod(lambda: Clock.now)

    def rest(seconds):
        Clock.now += seconds
        if Clock.now > 101:
            (tmp_path / "later").write_text("n2:1:1 [0] NCCL INFO Using network IB\n")
        return False

    monkeypatch.setattr(transport_lines, "time", Clock)
    monkeypatch.setattr(transport_lines, "rest", rest)
    (tmp_path / "first").write_text("n1:1:1 [0] NCCL INFO Using network Socket\n")
    logs = {
        rank: transport_lines.GrowingLog(str(tmp_path / name))
        for rank, name in enumerate(("first", "later", "never"))
    }
    transport_lines.follow(logs, ["ib"], 1000.0)
    assert [log.reader.chosen and log.reader.chosen.transport for log in logs.values()] == ["tcp", "ib", None]
    assert Clock.now < 104


@pytest.mark.slow
def test_gloo_alone_is_not_waited_for_until_the_end(run):
    """A later line of NCCL's would tell otherwise; where none comes, Gloo is all that there is."""
    for rank in (0, 2):
        (run / f"logs/rank-{rank}.log").write_text(f"[Gloo] Rank {rank} is connected to 3 peer ranks.\n")
    done = watch(run, "fail", "ib")
    assert "Gloo uses TCP sockets on n1, n2\n" in done.stdout
    assert "fabric: Gloo uses TCP sockets" in (run / "failures" / "fabric").read_text()


def test_where_there_are_gpus_gloo_is_given_time(tmp_path, monkeypatch):
    log = transport_lines.GrowingLog(str(tmp_path / "log"))
    (tmp_path / "log").write_text("[Gloo] Rank 0 is connected to 1 peer ranks.\n")
    log.look()
    monkeypatch.setattr(transport_lines.glob, "glob", lambda pattern: ["/dev/nvidia0"])
    log.since = time.time() - 60
    assert not log.settled(transport_lines.alone_after())
    (tmp_path / "log").write_text("[Gloo] Rank 0\nn1:1:1 [0] NCCL INFO Using network IB\n" + " " * 40)
    log = transport_lines.GrowingLog(str(tmp_path / "log"))
    log.look()
    assert log.settled(0.0)
    assert log.reader.chosen.transport == "ib"


def test_a_warning_leaves_no_note(run):
    assert "rank 2: NCCL uses TCP" in watch(run, "warn", "ib").stdout
    assert list((run / "failures").iterdir()) == []


def test_what_is_expected_is_said_once(run):
    assert watch(run, "fail", "ib,tcp").stdout.count("\n") == 2
    assert list((run / "failures").iterdir()) == []


def test_a_job_that_is_over_before_the_next_look_has_its_logs_read_once_more(tmp_path, monkeypatch):
    def rest(_):
        (tmp_path / "log").write_text("n1:1:1 [0] NCCL INFO Using network Socket\n")
        return True

    monkeypatch.setattr(transport_lines, "rest", rest)
    log = transport_lines.GrowingLog(str(tmp_path / "log"))
    assert transport_lines.follow({0: log}, ["ib"], time.time() + 1000)
    assert log.reader.chosen.transport == "tcp"


def test_what_the_logs_of_a_job_that_is_over_say_ends_nothing(run):
    """Of ranks that said nothing, nothing is said."""
    (run / "logs/rank-0.log").write_text("")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # the program finds it when it looks for it
    try:
        process = subprocess.Popen(
            words("fail", "ib"),
            env={"DLRUN_RUN_DIR": str(run), "DLRUN_HOSTS": str(run / "hosts")},
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    process.terminate()
    told, _ = process.communicate(timeout=60)
    assert told == (
        "dlrun: fabric: NCCL uses TCP sockets on n2\n"
        "dlrun: fabric: rank 2: NCCL uses TCP sockets, but this is InfiniBand; load ofed\n"
    )
    assert list((run / "failures").iterdir()) == []
