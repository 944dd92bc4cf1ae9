"""Every message of dlrun's own programs has a cause and a next step; the table has no message that nobody prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.why import own_patterns
from dlrun.why.diagnose import answer
from dlrun.why.own_messages import JOB, NODE
from dlrun.why.passing_messages import CACHES, IMAGES, PASSING
from dlrun.why.patterns import BY_NOTE
from tests.unit.why import messages


def test_each_message_of_a_job_is_in_the_table():
    """A message of the table may be one that is printed with more of it known, such as which command failed."""
    said, unread = messages.in_bash()
    assert unread == [], "its words are to stand where it is printed"
    said |= messages.lines_in_node()
    rows = (*JOB.values(), *IMAGES.values(), *CACHES.values())
    known = {message for own in rows for message in own.messages} | set(PASSING)
    assert {text: name for text, name in said.items() if text not in known} == {}
    printed = [re.compile(".*".join(re.escape(part) for part in text.split("{}"))) for text in said]
    assert [message for message in known if not any(one.fullmatch(message) for one in printed)] == []
    assert len(said) > 30


@pytest.mark.slow
def test_each_error_of_a_node_program_is_in_the_table():
    said, unread = messages.in_node()
    assert unread == [], "an error has words that no test can find: begin it with what it is about"
    known = {message for own in NODE.values() for message in own.messages}
    assert {text: name for text, name in said.items() if text not in known} == {}
    assert known - set(said) == set()
    assert len(said) > 60


def test_each_reason_that_a_rank_notes_is_known():
    assert {
        reason: name
        for reason, name in messages.notes_in_bash().items()
        if reason not in {*BY_NOTE, "out of memory"}
    } == {}


@pytest.mark.parametrize(
    ("text", "found", "unread"),
    [
        ('dlrun_log "the $what is gone"', {"the {} is gone"}, 0),
        ('what="gone"\ndlrun_log "$what"', {"{}"}, 0),
        ("dlrun_log $what", set(), 1),
        ('line="dlrun: gone"', set(), 1),
        ('line=${line#*"dlrun: gone"}', set(), 0),
        ('line=${line#*"dlrun: gone"} && line="dlrun: lost"', set(), 1),
    ],
)
def test_a_message_of_a_script_does_not_escape(text, found, unread, tmp_path, monkeypatch):
    """Also one that is built in a variable: it is a message that the table does not have, or one that cannot be read."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "new.sh").write_text(text + "\n")
    monkeypatch.setattr(messages, "ROOT", tmp_path)
    said, places = messages.in_bash()
    assert (set(said), len(places)) == (found, unread)


@pytest.mark.parametrize(
    ("code", "found", "unread"),
    [
        ('raise NodeError("the {} is gone".format(1))', {"the {} is gone"}, 0),
        ('message = "gone" if a else "lost"\n    raise NodeError(message)', {"gone", "lost"}, 0),
        ('(NoSpace if a else NodeError)("gone")', {"gone"}, 0),
        ('kind = NoSpace if a else NodeError\n    raise kind("gone")', {"gone"}, 0),
        ("raise NodeError(a)", {"from the caller"}, 0),
        ("raise NodeError(*BOTH)", {"of the module"}, 0),
        ("raise NodeError(said())", {"returned"}, 0),
        ('raise NodeError("{}: gone".format(a) + a)', {"{}: gonefrom the caller"}, 0),
        ("raise NodeError(str(a))", set(), 1),
        ("raise NodeError(fault.message)", set(), 0),
    ],
)
def test_an_error_of_a_node_program_does_not_escape(code, found, unread, tmp_path, monkeypatch):
    (tmp_path / "dlrun" / "node").mkdir(parents=True)
    rest = 'BOTH = ("of the module", "help")\ndef said():\n    return "returned"\ndef use():\n    f("from the caller")\n'
    (tmp_path / "dlrun" / "node" / "new.py").write_text(f"{rest}def f(a):\n    {code}\n")
    monkeypatch.setattr(messages, "ROOT", tmp_path)
    said, places = messages.in_node()
    assert (set(said), len(places)) == (found, unread)


def run_of(place: Path, log: str, text: str) -> JobStatus:
    (place / "logs").mkdir()
    (place / "logs" / log).write_text(text)
    (place / "logs" / "job.log").touch()
    (place / "state.json").write_text(json.dumps({"state": "ended", "exit_code": 1}))
    return JobStatus(job_id="7", state=State.FAILED, exit_code=1)


def job_of(place: Path) -> Job:
    return Job(directory=place, name="x", site="s", scheduler="slurm", job_id="7", submitted=None, array=None)


def filled(message: str) -> str:
    return message.replace("{}", "17")


@pytest.mark.parametrize(
    ("message", "cause"),
    [(message, cause) for cause, own in JOB.items() for message in own.messages],
)
def test_why_knows_what_ends_a_job(message, cause, tmp_path):
    text = filled(message)
    ends = "dlrun: job 7 ended with exit code 1\n"
    status = run_of(tmp_path, "job.log", f"dlrun: {text}\n{ends}")
    found = answer(job_of(tmp_path), status, tmp_path)
    assert found.cause == cause
    assert text in found.means
    assert found.next == JOB[cause].next.replace("JOB", tmp_path.name)


@pytest.mark.parametrize(
    ("message", "cause"),
    [(message, cause) for cause, own in NODE.items() for message in own.messages],
)
def test_why_knows_what_a_node_program_reports(message, cause, tmp_path):
    text = filled(message)
    status = run_of(tmp_path, "stage-1.log", f"error: {text}\n  = help: run again\n")
    found = answer(job_of(tmp_path), status, tmp_path)
    both = {name for name, own in NODE.items() if message in own.messages}
    assert found.cause in both
    assert text in found.means


OF_CACHES = [message for own in CACHES.values() for message in own.messages]


@pytest.mark.parametrize("message", [*PASSING, *OF_CACHES])
def test_what_only_reports_progress_is_no_cause(message):
    assert own_patterns.reports_progress(filled(message))


STALE = "OSError: [Errno 116] Stale file handle: '/home/me/.triton/cache/a/b.json'\n"
KEPT = CACHES["set"].messages[0]
ROOM = "caches: n7 has no room in /tmp/dlrun-caches-me: each tool uses its own"
DATASET = "FileNotFoundError: [Errno 2] No such file or directory: '/home/me/d.incomplete/x'\n"
MODULE = "ModuleNotFoundError: No module named 'torch'\n"


@pytest.mark.parametrize(
    ("line", "error", "means", "step"),
    [
        (
            KEPT.format("TRITON_CACHE_DIR", "/home/me/.triton", "nfs"),
            STALE,
            "b.json'; TRITON_CACHE_DIR is kept as it was set, /home/me/.triton, which is on nfs",
            "`environment.setup: [unset TRITON_CACHE_DIR]`",
        ),
        (
            ROOM,
            STALE,
            "b.json'; n7 has no room in /tmp/dlrun-caches-me",
            "name node-local storage that has room",
        ),
        (
            KEPT.format("NUMBA_CACHE_DIR", "/home/me/numba", "nfs"),
            STALE,
            "b.json'",
            "`caches: auto` (the default) keeps it on node-local storage",
        ),
        (ROOM, DATASET, "d.incomplete/x'", "prepare the data set once"),
        (ROOM, MODULE, "no module `torch` in the job's environment", ""),
    ],
    ids=["set", "place", "another variable", "another cache", "another error"],
)
def test_what_was_printed_of_a_cache_explains_an_error_below_it(line, error, means, step, tmp_path):
    status = run_of(tmp_path, "rank-0.log", f"dlrun: {line}\nstarting\n{error}")
    found = answer(job_of(tmp_path), status, tmp_path)
    assert found.means.endswith(means), found
    assert found.next.startswith(step)
