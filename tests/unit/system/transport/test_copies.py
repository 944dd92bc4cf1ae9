"""Copies of what a job elsewhere writes: logs that grow, states, results; only what is new comes over."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.clusters import login
from dlrun.jobs.logs import copies as log_copies
from dlrun.jobs.queue import status
from dlrun.jobs.records import contents, ownership
from dlrun.jobs.remote import copies as remote_copies, fetch as remote_fetch
from dlrun.jobs.remote.kept import Kept
from dlrun.model.job import State
from dlrun.system.transport.local import LocalTransport
from dlrun.system.transport.protocol import TransportFailed
from dlrun.usage.job import copy_records
from dlrun.why import diagnose as why, remote_evidence
from tests.forked import killed_at
from tests.unit.system.transport.far import SPEC, Wire


@pytest.fixture
def job(far, monkeypatch):
    """A job elsewhere."""
    monkeypatch.setattr(login, "_ways", {})
    return far.submit()


@pytest.fixture
def there(far, job):
    """Its directory."""
    return far.directories()[0]


def test_logs_come_as_they_grow(job, there):
    log, copy = there / "logs/rank-0.log", job.directory / "logs/rank-0.log"
    with log_copies.of(job, "first") as refresh:
        assert refresh(True)
        assert not copy.exists()
        log.write_bytes(b"one\n")
        (there / "logs/rank-1.log").write_bytes(b"not asked for\n")
        refresh(True)
        assert copy.read_bytes() == b"one\n"
        with log.open("ab") as more:
            more.write(b"\x00\xfftwo")
        refresh(True)
        assert copy.read_bytes() == b"one\n\x00\xfftwo"
        log.write_bytes(b"anew\n")  # a job that was requeued
        refresh(True)
        assert copy.read_bytes() == b"anew\n"
    assert not (job.directory / "logs/rank-1.log").exists()


def test_copies_go_on_where_they_ended(job, there):
    (there / "logs/job.log").write_bytes(b"0123456789")
    (job.directory / "logs/job.log").write_bytes(b"abcd")
    with log_copies.of(job, "job") as refresh:
        refresh(True)
    assert (job.directory / "logs/job.log").read_bytes() == b"abcd456789"


@pytest.mark.slow
def test_ranks_that_are_asked_for(job, there):
    for rank in range(12):
        (there / f"logs/rank-{rank}.log").touch()
        (there / f"logs/rank-{rank}.log").write_text("x")
    with log_copies.of(job, "1") as refresh:
        refresh(True)
    assert [path.name for path in (job.directory / "logs").iterdir()] == ["rank-1.log"]
    with log_copies.of(job, "all") as refresh:
        refresh(True)
    assert len(list((job.directory / "logs").iterdir())) == 12


@pytest.mark.slow
def test_logs_of_nodes_and_of_more_than_a_thousand_ranks(far, job):
    """Of a rank, the log of its node alone comes, from the directory of its thousand."""
    (far.tree / "spec.yaml").write_text(
        f"{SPEC}logs: node\nresources: {{nodes: 300, ranks_per_node: 4, ranks: 1199, walltime: 10m}}\n"
    )
    many = far.submit()
    place = Path(many.remote.directory)
    logs = place / "logs"
    for name in ("0/rank-0-3.log", "1/rank-1196-1198.log", "1/rank-1000-1003.log"):
        (logs / name).parent.mkdir(exist_ok=True)
        (logs / name).write_text("x")
    copies = many.directory / "logs"
    for wanted, names in {
        "first": ["0/rank-0-3.log"],
        "1197": ["0/rank-0-3.log", "1/rank-1196-1198.log"],
        "all": ["0/rank-0-3.log", "1/rank-1000-1003.log", "1/rank-1196-1198.log"],
    }.items():
        with log_copies.of(many, wanted) as refresh:
            refresh(True)
        assert sorted(path.relative_to(copies).as_posix() for path in copies.rglob("*.log")) == names
    fail(place, 1000, 10**18, 1)
    (logs / "1/rank-1000-1003.log").write_text("rank 1000:ModuleNotFoundError: No module named 'nowhere'\n")
    (found,) = why.explain(many)
    assert (found.cause, found.log) == ("missing-module", "logs/1/rank-1000-1003.log")


def test_broken_wire_is_made_anew(job, there, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    (there / "logs/job.log").write_text("here\n")
    wires = [
        Wire(3),
        Wire(4),
        LocalTransport("there"),
    ]  # the fourth is the first answer, however it is cut up
    monkeypatch.setattr(remote_copies, "transport_of", lambda *_, **__: wires.pop(0))
    with log_copies.of(job, "job") as refresh:
        refresh(True)
    assert wires == []
    assert (job.directory / "logs/job.log").read_text() == "here\n"


def test_host_that_stays_away_is_given_up(job, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("dlrun.system.transport.outage._LONGEST", 0.0)
    monkeypatch.setattr(remote_copies, "transport_of", lambda *_, **__: Wire(1))
    with pytest.raises(TransportFailed), log_copies.of(job, "job") as refresh:
        refresh(True)


def test_directory_that_is_gone(job, there):
    there.rename(there.with_name("elsewhere"))
    with (
        pytest.raises(OperationFailed, match="is gone"),
        log_copies.of(job, "job") as refresh,
    ):
        refresh(True)


def test_status_is_asked_there(far, job, there):
    """The queue knows nothing of the job any more; what it wrote itself counts."""
    (far.home / "calls").write_text("")
    (there / "state.json").write_text(
        json.dumps(
            {"version": 1, "state": "ended", "job_id": "1", "host": "n7", "exit_code": 3, "restarts": 0}
        )
    )
    (run,) = status.of([job])[job.directory]
    assert (run.state, run.exit_code, run.nodes) == (State.FAILED, 3, "n7")


ENDS = """\
#!/bin/bash
cd {place}
sed -i 's/"running"/"ended", "exit_code": 1, "reason": "hang"/' state.json points/0/state.json
sed -i 's/"running"/"ended", "exit_code": 0/' points/1/state.json
echo "1|FAILED|NonZeroExitCode|256|0|N/A|N/A|n[1-2]|"
"""
"""A job that ends while the queue is asked: it and its points write their ends, and then the queue has that of the job."""


@pytest.mark.parametrize(
    ("sweep", "states"),
    [("", [State.HANG]), ("sweep: {nodes: 2, x: [1, 2]}\n", [State.HANG, State.COMPLETED])],
)
def test_what_ends_between_the_copy_and_the_query_has_its_own_end(far, sweep, states):
    """The copies have it running, and the scheduler only a failure of the whole job, which would be recorded for good."""
    (far.tree / "spec.yaml").write_text(SPEC + sweep)
    job = far.submit()
    place = Path(job.remote.directory)
    for run in {place, *(place / run.relative_to(job.directory) for run in job.run_directories())}:
        (run / "state.json").write_text('{"version": 1, "job_id": "1", "host": "n1", "state": "running"}')
    (far.home / "programs/squeue").write_text(ENDS.format(place=place))
    for _ in range(2):  # as it is recorded, too
        assert [run.state for run in status.of([job])[job.directory]] == states


def test_status_of_a_host_that_is_away(job, monkeypatch):
    monkeypatch.setattr(remote_copies, "transport_of", lambda *_, **__: Wire(1))
    with pytest.raises(TransportFailed):
        status.of([job])
    (run,) = status.of([job], prompt=False, unasked=print)[job.directory]
    assert run.state is State.UNKNOWN


def fail(there, rank, when, code, *lines):
    (there / "failures").mkdir(exist_ok=True)
    (there / f"failures/rank-{rank}").write_text(f"{when} rank {rank} n{rank} {code}\n")
    (there / f"logs/rank-{rank}.log").write_text("\n".join(["x" * 99] * 20_000 + [*lines, ""]))


@pytest.mark.slow
def test_why_reads_the_ends_of_the_logs_there(far, job, there):
    """A few hundred kilobytes of logs of megabytes; the victim is not named, and the copies of logs stay as they were."""
    (far.home / "calls").write_text("")
    record = {"version": 1, "state": "ended", "job_id": "1", "host": "n7", "exit_code": 1, "restarts": 0}
    (there / "state.json").write_text(json.dumps(record))
    fail(there, 0, 10**18, 1, "RuntimeError: Connection closed by peer")
    fail(there, 1, 10**18 + 5, 1, "ModuleNotFoundError: No module named 'nowhere'")
    (there / "logs/job.log").write_text("dlrun: job 1 starts; nodes: n0\n")
    (found,) = why.explain(job)
    assert (found.cause, found.first.rank, found.log) == ("missing-module", 1, "logs/rank-1.log")
    assert not (job.directory / "logs/rank-1.log").exists()
    copies = Path(remote_evidence._copies[-1].name)
    fetched = sum(path.stat().st_size for path in copies.rglob("*") if path.is_file())
    assert 100_000 < fetched < 600_000
    assert why.first_failure(job, job.directory).rank == 1
    fail(there, 2, 10**18 - 5, 3, "PermissionError: [Errno 13] Permission denied")
    assert why.explain(job)[0].first.rank == 2


def results(there, **files):
    for name, text in files.items():
        (there / "files" / name).write_text(text)


def test_fetch_brings_what_is_new(job, there):
    results(there, model="weights", log="x")
    done = remote_fetch.fetch(job, (), None)
    assert done.directory == job.directory
    assert sorted(p.name for p in (job.directory / "files").iterdir()) == [
        "log",
        "model",
    ]  # not what was sent
    results(there, log="longer")
    again = remote_fetch.fetch(job, (), None)
    assert (again.files, again.size) == (1, 6)
    assert (job.directory / "files/log").read_text() == "longer"
    same = (job.directory / "files/model").stat().st_mtime_ns
    assert same == (there / "files/model").stat().st_mtime_ns


def test_changed_input_is_a_result(job, there):
    (there / "files/train.sh").write_text("changed by the job\n")
    remote_fetch.fetch(job, (), None)
    assert (job.directory / "files/train.sh").read_text() == "changed by the job\n"


def test_fetch_by_name(job, there, tmp_path):
    (there / "files/out/deep").mkdir(parents=True)
    results(there, **{"a.pt": "a", "b.pt": "b", "c.txt": "c", "out/deep/d": "d", "it's *": "e"})
    remote_fetch.fetch(job, ("*.pt", "out", "it's [*]"), tmp_path / "to")
    found = {p.relative_to(tmp_path / "to").as_posix() for p in (tmp_path / "to").rglob("*") if p.is_file()}
    assert found == {"a.pt", "b.pt", "out/deep/d", "it's *"}
    for name in ("../secret", "/etc/passwd"):
        with pytest.raises(Invalid, match="is outside"):
            remote_fetch.fetch(job, (name,), None)


def test_names_of_any_bytes(job, there):
    odd = b"caf\xe9 \n$HOME"
    with open(os.fsencode(there) + b"/files/" + odd, "wb") as file:  # noqa: PTH123 - not text
        file.write(b"odd")
    remote_fetch.fetch(job, (), None)
    with open(os.fsencode(job.directory) + b"/files/" + odd, "rb") as file:  # noqa: PTH123
        assert file.read() == b"odd"


def test_many_files_come_in_batches(job, there, monkeypatch):
    monkeypatch.setattr(remote_fetch, "_NAMES", 200)
    results(there, **{f"file-{i}": str(i) for i in range(100)})
    assert remote_fetch.fetch(job, ("*",), None).files == 101
    assert (job.directory / "files/file-57").read_text() == "57"


@pytest.mark.parametrize("count", [4, 5, 6, 7, 8, 9])
def test_cut_fetch_goes_on(job, there, monkeypatch, count):
    monkeypatch.setattr(remote_fetch, "_LARGE", 1000)
    big = os.urandom(300_000).hex()
    results(there, big=big, small="s")
    monkeypatch.setattr(remote_fetch, "transport_of", lambda *_, **__: Wire(count))
    with pytest.raises(OperationFailed):
        remote_fetch.fetch(job, (), None)
    monkeypatch.setattr(remote_fetch, "transport_of", lambda *_, **__: LocalTransport("there"))
    remote_fetch.fetch(job, (), None)
    assert (job.directory / "files/big").read_text() == big
    assert (job.directory / "files/small").read_text() == "s"


def test_middle_of_a_large_file_is_not_fetched_twice(job, there, monkeypatch):
    """A part is gone on with only if it is of this very file, and on the list of what was fetched."""
    monkeypatch.setattr(remote_fetch, "_LARGE", 1000)
    results(there, big="0123456789" * 500)
    seen = (there / "files/big").stat()
    (job.directory / "files").mkdir()
    for part, mtime_ns, text in (
        ("of-it-large.part", seen.st_mtime_ns, "x" * 4990),
        ("old-large.part", 7, "old"),
    ):
        with Kept(job.directory, job.directory) as kept:
            kept.add("files/big", seen.st_size, mtime_ns, part)
        (job.directory / "files" / part).write_text(text)
    (job.directory / f"files/.big.{seen.st_size}-{seen.st_mtime_ns}.part").write_text("mine")
    remote_fetch.fetch(job, (), None)
    assert (job.directory / "files/big").read_text() == "x" * 4990 + "0123456789"
    (part,) = (job.directory / "files").glob("*.part")
    assert part.read_text() == "mine"


def test_links_that_lead_out_are_left_out(job, there):
    results(there, a="1")
    for name, target in {"good": "a", "up": "../../x", "far": "/etc/passwd"}.items():
        (there / "files" / name).symlink_to(target)
    done = remote_fetch.fetch(job, (), None)
    assert sorted(done.refused) == ["files/far", "files/up"]
    assert (job.directory / "files/good").read_text() == "1"


def test_stream_that_names_other_files_writes_none(job, there, monkeypatch, tmp_path):
    """What was not queried for is not written, wherever it wants to go."""
    import io
    import tarfile

    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("../planted", "/tmp/planted", "./files/planted", "./files/asked"):
            info = tarfile.TarInfo(name)
            info.size = 4
            tar.addfile(info, io.BytesIO(b"evil"))
    (tmp_path / "stream").write_bytes(stream.getvalue())
    real = remote_fetch.script
    monkeypatch.setattr(
        remote_fetch, "script",
        lambda name, **given: f"cat >/dev/null; cat {tmp_path}/stream" if name == "give" else real(name, **given),
    )  # fmt: skip
    results(there, asked="good")
    remote_fetch.fetch(job, (), None)
    assert not list(tmp_path.rglob("*planted*"))
    assert (job.directory / "files/asked").read_text() == "evil"


def test_job_of_this_machine_has_nothing_to_fetch(job):
    from dataclasses import replace

    with pytest.raises(Invalid, match="ran from this machine"):
        remote_fetch.fetch(replace(job, remote=None), (), None)


def test_recordings_of_what_a_job_uses_come_as_they_grow(job, there):
    copy_records(job)
    assert not (job.directory / "usage").exists()
    (there / "usage").mkdir()
    (there / "usage/n1.jsonl").write_bytes(b"one\n")
    (there / "usage/n2.jsonl").symlink_to("/etc/passwd")
    (there / "usage/other").write_bytes(b"not wanted\n")
    copy_records(job)
    (there / "usage/n1.jsonl").write_bytes(b"one\ntwo\n")
    copy_records(job)
    assert (job.directory / "usage/n1.jsonl").read_bytes() == b"one\ntwo\n"
    assert [path.name for path in (job.directory / "usage").iterdir()] == ["n1.jsonl"]


@pytest.mark.parametrize("later", [3600, -3600])
def test_a_file_that_was_changed_here_is_kept(job, there, tmp_path, later):
    """An edited `train.py`, a checkpoint of another run: newer or older, no fetch has written it."""
    results(there, **{"a.pt": "of the job", "b.pt": "of the job"})
    to = tmp_path / "to"
    to.mkdir()
    (to / "a.pt").write_text("mine")
    seen = (there / "files/a.pt").stat().st_mtime
    os.utime(to / "a.pt", (seen + later, seen + later))
    done = remote_fetch.fetch(job, ("*.pt",), to)
    assert ((to / "a.pt").read_text(), (to / "b.pt").read_text()) == ("mine", "of the job")
    assert (done.kept, done.files) == (["a.pt"], 1)
    done = remote_fetch.fetch(job, ("*.pt",), to, force=True)
    assert ((to / "a.pt").read_text(), done.kept) == ("of the job", [])


def test_what_a_fetch_wrote_is_replaced_until_it_is_edited(job, there, tmp_path):
    to = tmp_path / "to"
    for text in ("first", "second, longer", "third"):
        results(there, **{"a.pt": text})
        assert remote_fetch.fetch(job, ("*.pt",), to).kept == []
        assert (to / "a.pt").read_text() == text
    (to / "a.pt").write_text("edited here")
    results(there, **{"a.pt": "fourth"})
    assert remote_fetch.fetch(job, ("*.pt",), to).kept == ["a.pt"]
    assert (to / "a.pt").read_text() == "edited here"


def test_files_of_the_user_with_names_of_incomplete_copies_stay(job, there, tmp_path):
    results(there, **{"a.pt": "of the job", "n" * 255: "long"})
    to = tmp_path / "to"
    to.mkdir()
    (to / ".a.pt.part").write_text("mine")
    (to / "mine").write_text("mine")
    (to / "b.pt").symlink_to("mine")
    results(there, **{"b.pt": "of the job"})
    done = remote_fetch.fetch(job, (), to)
    assert (to / "files" / "a.pt").read_text() == "of the job"
    done = remote_fetch.fetch(job, ("*.pt",), to)
    assert (done.kept, (to / "b.pt").readlink()) == (["b.pt"], Path("mine"))
    assert ((to / ".a.pt.part").read_text(), (to / "mine").read_text()) == ("mine", "mine")
    assert remote_fetch.fetch(job, ("*.pt",), to, force=True).kept == []
    assert ((to / "b.pt").read_text(), (to / "mine").read_text()) == ("of the job", "mine")


@pytest.mark.parametrize("large", [1 << 30, 100])
def test_a_file_that_changes_here_during_a_fetch_is_kept(job, there, tmp_path, monkeypatch, large):
    monkeypatch.setattr(remote_fetch, "_LARGE", large)
    results(there, **{"a.pt": "x" * 300, "b.pt": "y" * 300})
    to = tmp_path / "to"
    remote_fetch.fetch(job, ("*.pt",), to)
    results(there, **{"a.pt": "X" * 300, "b.pt": "Y" * 300, "c.pt": "Z" * 300})
    done = remote_fetch.fetch(
        job, ("*.pt",), to, lambda *_: [(to / name).write_text("mine") for name in ("a.pt", "c.pt")]
    )
    assert (done.kept, done.files, done.size) == (["a.pt", "c.pt"], 1, 300)
    assert [(to / name).read_text()[:4] for name in ("a.pt", "b.pt", "c.pt")] == ["mine", "YYYY", "mine"]
    assert len(list(to.iterdir())) == 3


@pytest.mark.parametrize("large", [1 << 30, 100])
@pytest.mark.parametrize("event", ["os.utime", "os.rename"])
def test_what_a_killed_fetch_leaves_is_known(job, there, tmp_path, monkeypatch, large, event):
    monkeypatch.setattr(remote_fetch, "_LARGE", large)
    results(there, **{"a.pt": "x" * 300})
    for to in (None, tmp_path / "to"):
        killed_at(event, lambda to=to: remote_fetch.fetch(job, ("*.pt",), to))
        place = to or job.directory / "files"
        assert [path.suffix for path in place.iterdir()] == [".part"]
        if to is None:
            found = contents.survey(job.directory, ownership.read(job.directory))
            assert [one.path for one in found.others] == []
        assert remote_fetch.fetch(job, ("*.pt",), to).files == 1
        assert [path.name for path in place.iterdir()] == ["a.pt"]
    found = contents.survey(job.directory, ownership.read(job.directory))
    assert [(one.path, one.fetched) for one in found.others] == [("files/a.pt", True)]
    (job.directory / "files/a.pt").write_text("edited")
    found = contents.survey(job.directory, ownership.read(job.directory))
    assert [(one.path, one.fetched) for one in found.others] == [("files/a.pt", False)]
