"""A login node that wants to write where it must not: nothing that it sends leaves the job's record."""

from __future__ import annotations

import contextlib
import io
import shlex
import tarfile

import pytest

from dlrun.errors import OperationFailed
from dlrun.jobs.clusters import login
from dlrun.jobs.logs import copies as log_copies
from dlrun.jobs.remote import copies as remote_copies, fetch as remote_fetch

EVIL = b"planted\n"


@pytest.fixture
def job(far, monkeypatch):
    """A job elsewhere."""
    monkeypatch.setattr(login, "_ways", {})
    return far.submit()


@pytest.fixture
def home(far):
    """The user's home directory, with a file that nobody else may change."""
    (far.home / ".bashrc").write_text("mine\n")
    return far.home


@pytest.fixture
def host(job, monkeypatch, tmp_path):
    """Makes the login node answer a fetch with what it likes: names with a link's target or a file's content."""
    replies = tmp_path / "replies"
    replies.mkdir()
    real = remote_fetch.script

    def lies(entries: list[tuple[str, str | bytes]], listed: list[str] | None = None) -> None:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as tar:
            for name, content in entries:
                info = tarfile.TarInfo(name)
                if isinstance(content, str):
                    info.type, info.linkname = tarfile.SYMTYPE, content
                    tar.addfile(info)
                else:
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        (replies / "tar").write_bytes(stream.getvalue())
        rows = [
            f"{'l' if isinstance(content, str) else 'f'} {len(content)} 1700000000.0 {name}\0"
            for name, content in entries
        ]
        (replies / "list").write_text("".join(listed or rows))
        text = {"list": f"cat {shlex.quote(str(replies / 'list'))}",
                "give": f"cat >/dev/null; cat {shlex.quote(str(replies / 'tar'))}",
                "give_rest": f"printf '%s' {shlex.quote(EVIL.decode())}"}  # fmt: skip
        monkeypatch.setattr(
            remote_fetch, "script", lambda script, **given: text.get(script) or real(script, **given)
        )

    return lies


def outside(home, record):
    """Files and links of the user's home outside the record, with what they hold."""
    return {
        path: path.readlink() if path.is_symlink() else path.read_bytes()
        for path in home.rglob("*")
        if (path.is_symlink() or path.is_file()) and record not in path.parents
    }


def climbing(record, home):
    """`..` often enough to get from a record to the user's home."""
    return "/".join([".."] * len(record.relative_to(home).parts))


CHAINS = {
    "links that add up": lambda up, _: [
        ("d/e/e/p/p/l", "../../../../.."),
        ("d/e/e/p/p/l/h", up),
        ("h/.bashrc", EVIL),
        ("h/.profile", EVIL),
    ],
    "through the link itself": lambda up, _: [
        ("a/b/c/d/e/f/g/l", up),
        ("l", "a/b/c/d/e/f/g/l"),
        ("l/.bashrc", EVIL),
    ],
    "up after going down a link": lambda up, _: [
        ("a/b/c/d/e/f/g/root", "../../../../../../.."),
        ("x", f"a/b/c/d/e/f/g/root/{up}"),
        ("x/.bashrc", EVIL),
    ],
    "full path": lambda _, home: [("l", str(home)), ("l/.bashrc", EVIL)],
    "part of a file": lambda up, _: [(".x.part", f"{up}/.bashrc"), ("x", EVIL)],
}


@pytest.mark.parametrize("how", CHAINS)
@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_no_chain_of_links_leads_out(job, home, host, how, times):
    """Neither within one fetch, nor by links that an earlier one made."""
    before = outside(home, job.directory)
    entries = CHAINS[how](climbing(job.directory, home), home)
    for _ in range(times):
        for part in (entries, *([one] for one in entries)):
            host(part)
            before |= {
                path: text for path, text in outside(home, job.directory).items() if "replies" in str(path)
            }
            with contextlib.suppress(OperationFailed):
                remote_fetch.fetch(job, (), None)
            assert outside(home, job.directory) == before
    for path in job.directory.rglob("*"):
        assert job.directory.resolve() in (path.resolve(), *path.resolve().parents), path


def test_large_file_goes_through_no_link(job, home, host, monkeypatch):
    monkeypatch.setattr(remote_fetch, "_LARGE", 4)
    up = climbing(job.directory, home)
    (job.directory / "l").symlink_to(up)  # as an older dlrun may have made it
    (job.directory / f".x.{len(EVIL)}-1700000000000000000.part").symlink_to(f"{up}/.bashrc")
    host([("l/.bashrc", EVIL), ("x", EVIL)])
    done = remote_fetch.fetch(job, (), None)
    assert (home / ".bashrc").read_text() == "mine\n"
    assert list(done.refused) == ["l/.bashrc"]
    assert (job.directory / "x").read_bytes() == EVIL


def test_only_what_was_asked_for_is_written(job, home, host, tmp_path):
    """`--to ~` is no leave to write `~/.bashrc`."""
    host([(".bashrc", EVIL), (".ssh/authorized_keys", EVIL), ("out/good", EVIL), ("other", EVIL)])
    done = remote_fetch.fetch(job, ("out", "*.pt"), home)
    assert (home / ".bashrc").read_text() == "mine\n"
    assert (home / "out/good").read_bytes() == EVIL
    assert done.files == 1
    assert not (home / ".ssh").exists()
    assert not (home / "other").exists()


RECORD = ("plan.json", "submission.json", "sent.json", "spec.yaml", "again.json", "again-of.json")


@pytest.mark.parametrize("name", RECORD)
def test_the_record_itself_is_not_fetched(job, host, name):
    """What this machine wrote down of the job decides what `cancel` does."""
    before = {path.name: path.read_bytes() for path in job.directory.iterdir() if path.is_file()}
    host([(name, EVIL), (f"./{name}", EVIL), (f"files/../{name}", EVIL)])
    remote_fetch.fetch(job, (), None)
    assert {path.name: path.read_bytes() for path in job.directory.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "name",
    [
        *RECORD,
        "../x.log",
        "/tmp/x.log",
        "logs/../plan.json",
        "logs/.log/x",
        "files/x.log",
        "points/../logs/x.log",
    ],
)
def test_logs_are_all_that_a_look_at_logs_writes(job, monkeypatch, name):
    before = {path: path.read_bytes() for path in job.directory.rglob("*") if path.is_file()}
    reply = f"read -r _; printf '0 8 %s\\n' {shlex.quote(name)}; printf 'planted\\n'; echo ."
    monkeypatch.setattr(remote_copies, "script", lambda *_, **__: reply)
    with pytest.raises(OperationFailed), log_copies.of(job, "job") as refresh:
        refresh(True)
    assert {path: path.read_bytes() for path in job.directory.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("link", ["logs", "logs/job.log", "logs/.job.log.new"])
def test_logs_go_through_no_link(job, home, monkeypatch, link):
    place = job.directory / link
    if link == "logs":
        place.rmdir()
    place.symlink_to(home if link == "logs" else home / ".bashrc")
    monkeypatch.setattr(
        remote_copies,
        "script",
        lambda *_, **__: "read -r _; echo '0 8 logs/job.log'; printf 'planted\\n'; echo .",
    )
    try:
        with log_copies.of(job, "job") as refresh:
            refresh(True)
    except OperationFailed:
        pass
    assert (home / ".bashrc").read_text() == "mine\n"
    assert not (home / "job.log").exists()


@pytest.mark.parametrize(
    "answer",
    ["", "x", "1 2", "a b logs/job.log", "0 -5 logs/job.log", "-7 5 logs/job.log", "0 ² logs/job.log",
     "99999999999999999999999999 1 logs/job.log", "0 99999999999999999999999 logs/job.log", "\\xff\\xfe 5 5"],
)  # fmt: skip
def test_answer_that_makes_no_sense(job, monkeypatch, answer):
    reply = f"read -r _; printf '{answer}\\n'; printf 'planted\\n'; echo ."
    monkeypatch.setattr(remote_copies, "script", lambda *_, **__: reply)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("dlrun.system.transport.outage._LONGEST", 0.0)
    with pytest.raises(OperationFailed), log_copies.of(job, "job") as refresh:
        refresh(True)


@pytest.mark.parametrize(
    "row", ["", "f", "f x 1.0 a", "f -1 1.0 a", "f 1 x a", "f 1 ².0 a", "f 1 1e9 a", f"f 1 {'9' * 30}.0 a",
            f"f {'9' * 5000} 1.0 a", "f 1 1.0 ", "f 1 1.0 .", "f 1 1.0 a\n/b", "x 1 1.0 a"],
)  # fmt: skip
def test_listing_that_makes_no_sense(job, host, row):
    host([("a", EVIL)], listed=[row + "\0"])
    with contextlib.suppress(OperationFailed):
        remote_fetch.fetch(job, (), None)
