"""Log files: which a word means, and following them while they grow."""

from __future__ import annotations

import time

import pytest

from dlrun.errors import Invalid
from dlrun.jobs.logs import files as log_files


@pytest.fixture
def run(tmp_path):
    (tmp_path / "logs").mkdir()
    for name in ("job", "rank-0", "rank-1", "rank-2", "rank-10", "server-0", "server-1", "not.a.log"):
        (tmp_path / "logs" / f"{name}.log").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "labels"),
    [
        ("job", ["job"]),
        ("first", ["job", "rank 0", "server 0"]),
        ("all", ["job", "rank 0", "rank 1", "rank 2", "rank 10", "server 0", "server 1"]),
        ("1", ["rank 1", "server 1"]),
        ("1-2,10", ["rank 1", "rank 2", "rank 10", "server 1"]),
        ("7", []),
    ],
)
def test_which_logs_a_word_means(run, wanted, labels):
    assert [log.label for log in log_files.find(run, wanted)] == labels


@pytest.mark.parametrize("wanted", ["", "x", "-1", "1-", "0-9999999", "1,,2", "first,1"])
def test_words_that_name_no_ranks(run, wanted):
    with pytest.raises(Invalid, match="does not name ranks"):
        log_files.find(run, wanted)


def test_following_gives_whole_lines_of_files_that_appear(run):
    path, late = run / "logs" / "rank-0.log", run / "logs" / "rank-3.log"
    steps = iter(
        [
            lambda: path.write_bytes(b"one\ntw"),
            lambda: path.write_bytes(b"one\ntwo\r\n\xff"),
            lambda: late.write_bytes(b"late\n"),
            lambda: path.write_bytes(b"one\ntwo\r\n\xffend"),
        ]
    )
    ended = []

    def over() -> bool:
        step = next(steps, None)
        if step is None:
            ended.append(True)
        else:
            step()
        return bool(ended)

    followed = log_files.follow(lambda: log_files.find(run, "0,3"), over, interval=0.0)
    assert [(log.label, line) for log, line in followed] == [
        ("rank 0", b"one\n"),
        ("rank 0", b"two\r\n"),
        ("rank 3", b"late\n"),
        ("rank 0", b"\xffend\n"),
    ]


def test_what_is_written_between_the_last_look_and_the_end_is_not_lost(run):
    path = run / "logs" / "rank-0.log"

    def over() -> bool:
        path.write_bytes(b"last words\n")
        return True

    assert [line for _, line in log_files.follow(lambda: log_files.find(run, "0"), over)] == [b"last words\n"]


def test_a_log_longer_than_a_chunk(run):
    text = b"".join(b"%d\n" % i for i in range(50_000))
    (run / "logs" / "rank-0.log").write_bytes(text)
    assert (
        b"".join(line for _, line in log_files.follow(lambda: log_files.find(run, "0"), lambda: True)) == text
    )


LONG = b"x" * (40 << 20)


def test_a_line_of_any_length_is_read_in_a_small_part_of_it(run):
    """Each piece must not be joined with all before it: a line of 3 GB took hours."""
    path = run / "logs" / "rank-0.log"
    path.write_bytes(b"first\n" + LONG + b"\nlast\n" + LONG)
    begun = time.process_time()
    (log,) = log_files.find(run, "0")[:1]
    for found in (
        [line for _, line in log_files.follow(lambda: [log], lambda: True)],
        list(log_files.lines(log)),
    ):
        assert [len(line) < 1 << 21 for line in found] == [True] * 4
        assert (found[0], found[2]) == (b"first\n", b"last\n")
        assert all(line.endswith(b"x [the rest of this line is left out]\n") for line in (found[1], found[3]))
    assert time.process_time() - begun < 60


def test_a_log_that_is_gone_is_passed_over(run):
    found = log_files.find(run, "0")
    (run / "logs" / "rank-0.log").unlink()
    assert [line for log, line in log_files.follow(lambda: found, lambda: True) if log.role == "rank"] == []


def test_the_last_run_of_a_log_is_what_was_said_since_it_began(tmp_path):
    path = tmp_path / "rank-0.log"
    log = log_files.Log(path=path, role="rank")
    assert log_files.last_run(log, 100) == ""
    path.write_bytes(b"epoch 1 \xff\n")
    assert log_files.last_run(log, 100) == "epoch 1 \ufffd\n"
    path.write_text("epoch 1\ndlrun: run 2\nepoch 2\ndlrun: run 3\nepoch 3\n")
    assert log_files.last_run(log, 100, 3).splitlines()[1:] == ["epoch 3"]
    assert log_files.last_run(log, 8, 3) == "epoch 3\n"
    log = log_files.Log(path=tmp_path / "job.log")
    path = log.path
    path.write_text("dlrun: job 7 starts; rank 0 is on n1\nold\ndlrun: job 7 starts; rank 0 is on n1\nnew\n")
    assert log_files.last_run(log, 1000).splitlines()[1:] == ["new"]


def test_a_rank_that_prints_what_begins_a_run_hides_nothing(tmp_path):
    path = tmp_path / "rank-0.log"
    log = log_files.Log(path=path, role="rank")
    path.write_text("cause\ndlrun: run 7\ndlrun: job 7 starts; x\nend\n")
    assert log_files.last_run(log, 100).startswith("cause\n")
    path.write_text("old\ndlrun: run 2\ncause\ndlrun: run 7\ndlrun: run 2\nend\n")
    assert log_files.last_run(log, 100, 2).splitlines()[1] == "cause"


@pytest.fixture
def shared(tmp_path):
    """The log of a node's four ranks, of which one wrote a line in two parts, another before it in between."""
    (tmp_path / "logs/1").mkdir(parents=True)
    path = tmp_path / "logs/1/rank-1000-1003.log"
    path.write_bytes(
        b"rank 1001:one\nrank 1000:zero\nrank 1001:long rank 1003:three\nand its end\nrank 1000:more\n"
    )
    (tmp_path / "logs/0").mkdir()
    (tmp_path / "logs/0/rank-7.log").write_bytes(b"alone\n")
    return tmp_path


def test_lines_of_a_rank_in_the_log_of_its_node(shared):
    log, other = log_files.find(shared, "1000-1001")
    assert (log.label, log.name, log.run) == ("rank 1000", "logs/1/rank-1000-1003.log", shared)
    assert [*log_files.lines(log)] == [b"zero\n", b"more\n"]
    assert [*log_files.text(other)] == ["one\n", "long rank 1003:three\n", "and its end\n"]
    assert log_files.last_run(log, 100) == "zero\nmore\n"
    assert log_files.last_run(log, 5) == "more\n"
    assert log_files.name_of(shared, "rank", 1002) == "logs/1/rank-1000-1003.log"
    assert log_files.name_of(shared, "rank", 7) == "logs/0/rank-7.log"
    assert log_files.name_of(shared, "rank", 9) == "logs/rank-9.log"


def test_the_log_of_a_node_is_followed_rank_by_rank(shared):
    found = log_files.find(shared, "7,1000-1001")
    path = found[-1].path
    with path.open("ab") as stream:
        stream.write(b"rank 1001:half")
    steps = iter([lambda: path.write_bytes(path.read_bytes() + b" whole\nrank 1002:no\nrank 1000:last")])
    followed = log_files.follow(lambda: found, lambda: [step() for step in steps] == [], interval=0.0)
    assert [(log.rank, line) for log, line in followed] == [
        (7, b"alone\n"), (1001, b"one\n"), (1000, b"zero\n"), (1001, b"long rank 1003:three\n"),
        (1001, b"and its end\n"), (1000, b"more\n"), (1001, b"half whole\n"), (1000, b"last\n"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tail", "there"),
    [
        (0, []),
        (1, [(7, b"alone\n"), (1001, b"and its end\n"), (1000, b"more\n")]),
        (2, [(7, b"alone\n"), (1001, b"long rank 1003:three\n"), (1001, b"and its end\n"),
             (1000, b"zero\n"), (1000, b"more\n")]),
    ],
)  # fmt: skip
def test_following_begins_with_the_last_lines_of_each_process(shared, tail, there):
    found = log_files.find(shared, "7,1000-1001")
    path = found[-1].path
    steps = iter([lambda: path.write_bytes(path.read_bytes() + b"rank 1000:new\nrank 1000:newest\n")])
    followed = log_files.follow(
        lambda: found, lambda: [step() for step in steps] == [], interval=0.0, tail=tail
    )
    assert [(log.rank, line) for log, line in followed] == [
        *there, (1000, b"new\n"), (1000, b"newest\n")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "most"),
    [("rank-0-99999999999", 0), ("rank-0-999999999", 1 << 16), ("rank-²", 0), ("rank-7-3", 0)],
)
def test_the_name_of_a_log_stands_for_no_more_ranks_than_a_node_has(name, most):
    assert len(log_files.processes(f"{name}.log")) == most
