"""`dlrun stage-data` on this machine: data sets come, are recognised, listed and removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


@pytest.fixture
def source(dlrun) -> Path:
    made = dlrun.place / "set"
    (made / "sub").mkdir(parents=True)
    for number in range(20):
        (made / "sub" / f"{number}.bin").write_bytes(bytes([number]) * 1000)
    return made


@pytest.fixture
def local(dlrun) -> Path:
    return dlrun.place / "local"


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_source_comes_whole_and_is_recognised_the_second_time(dlrun, source, local):
    ran = dlrun("stage-data", "set", "--to", local)
    assert ran.stdout.splitlines() == [str(local / "set" / "data")]
    assert contents(local / "set" / "data") == contents(source)
    assert "20 files" in ran.stderr
    done = [
        json.loads(line) for line in dlrun("stage-data", source, "--to", local, "--json").stdout.splitlines()
    ]
    assert (done[-2]["event"], done[-2]["how"], done[-2]["copied"]) == ("done", "warm", 0)
    assert done[-1]["stage"]["sets"] == {"set": str(local / "set" / "data")}
    assert done[-1]["stage"]["reports"]["set"]["files"] == 20


@pytest.mark.slow
def test_a_spec_says_what_is_staged_and_how(dlrun, source, local):
    spec = dlrun.spec(
        "command: [x]\nenvironment: {venv: /nowhere/at/all}\n"
        f"data:\n  one: {{source: '{source}', strategy: copy, include: ['1*.bin']}}\n"
        f"  two: {{source: '{source}', strategy: in_place}}\n"
    )
    ran = dlrun("stage-data", spec, "--to", local, "--verify", "--low-priority", "--rate", "1GB")
    assert ran.stdout.splitlines() == [str(local / "one" / "data"), str(source)]
    assert sorted(contents(local / "one" / "data")) == sorted(f"sub/{n}.bin" for n in (1, *range(10, 20)))


@pytest.mark.slow
def test_a_set_that_a_training_starts_with_a_part_of_is_staged_as_a_whole(dlrun, source, local):
    dlrun.place.joinpath("early.yaml").write_text(
        f"name: a\ncommand: ['true']\ndata: {{s: {{source: {source}, strategy: copy, start: 2 files}}}}\n"
    )
    assert dlrun("stage-data", "early.yaml", "--to", local).stdout.splitlines() == [str(local / "s" / "data")]
    assert contents(local / "s" / "data") == contents(source)


def test_a_url_is_refused_in_the_words_that_were_typed(dlrun, local):
    ran = dlrun("stage-data", "gs://bucket/set", "--to", local, code=2)
    assert "`gs://bucket/set` is not on a file system that is mounted here" in ran.stderr
    assert "gcloud storage rsync" in ran.stderr
    assert "yaml" not in ran.stderr


@pytest.mark.slow
def test_a_variable_in_the_destination_is_that_of_this_machine(dlrun, source, local):
    ran = dlrun("stage-data", source, "--to", "$SCRATCH_HERE/deeper", env={"SCRATCH_HERE": str(local.parent)})
    assert ran.stdout.splitlines() == [str(local.parent / "deeper" / "set" / "data")]
    assert not (dlrun.place / "$SCRATCH_HERE").exists()


def test_what_the_plan_refuses_is_told_without_the_generated_spec(dlrun, local):
    ran = dlrun("stage-data", "https://example.org/a.tar", "--to", local, "--strategy", "shard", code=2)
    assert (
        "`https://example.org/a.tar` is fetched by the first node for all nodes, but `--strategy shard` reads"
        in ran.stderr
    )
    assert "yaml" not in ran.stderr
    assert "warning" not in ran.stderr, "of cores and the like, which staging does not need"


@pytest.mark.slow
def test_a_chosen_strategy_has_its_reason_from_where_it_was_chosen(dlrun, source, local):
    assert (
        "set: pack: from `--strategy`\n"
        in dlrun("stage-data", source, "--to", local, "--strategy", "pack").stderr
    )
    spec = dlrun.spec(f"command: [x]\ndata: {{one: {{source: '{source}', strategy: copy}}}}\n")
    assert "one: copy: from the spec\n" in dlrun("stage-data", spec, "--to", local).stderr


@pytest.mark.slow
def test_a_file_with_several_names_counts_once(dlrun, source, local):
    os.link(source / "sub" / "1.bin", source / "again.bin")
    assert "its 20KB in 20 files" in dlrun("stage-data", source, "--to", local).stderr


@pytest.mark.slow
def test_a_file_of_a_web_server_is_staged(dlrun, local, tmp_path):
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "one.tar").write_bytes(b"content")
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "web"))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/one.tar"
        ran = dlrun("stage-data", url, "--name", "web", "--to", local)
        server.shutdown()
    assert ran.stdout.splitlines() == [str(local / "web" / "data")]
    assert (local / "web" / "data" / "one.tar").read_bytes() == b"content"
    assert "the first node fetches it" in ran.stderr


@pytest.mark.slow
def test_an_archive_of_a_web_server_is_unpacked(dlrun, source, local, tmp_path):
    (tmp_path / "web").mkdir()
    with tarfile.open(tmp_path / "web" / "one.tgz", "w:gz") as made:
        made.add(source, "set")
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "web"))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/one.tgz"
        words = ("stage-data", url, "--unpack", "--name", "web", "--to", local)
        dlrun(*words)
        assert contents(local / "web" / "data" / "set") == contents(source)
        assert "warm" in dlrun(*words).stderr
        server.shutdown()
    assert sorted(path.name for path in (local / ".dlrun").glob("*.web")) == ["lock.web", "used.web"]


@pytest.mark.slow
def test_a_set_is_read_back_and_a_damaged_one_is_copied_again(dlrun, source, local):
    dlrun("stage-data", source, "--to", local)
    assert "20 files" in dlrun("stage-data", "--verify-set", "set", "--to", local).stdout
    harmed = local / "set" / "data" / "sub" / "7.bin"
    times = harmed.stat().st_mtime_ns
    harmed.write_bytes(bytes(1000))
    os.utime(harmed, ns=(times, times))
    failed = dlrun("stage-data", "--verify-set", "set", "--to", local, code=1)
    assert "`sub/7.bin`" in failed.stderr
    os.utime(local / "set" / "manifest")  # as if it had been so when the set was published
    dlrun("stage-data", source, "--to", local, "--recheck", "none")
    assert contents(local / "set" / "data") != contents(source)
    dlrun("stage-data", source, "--to", local, "--verify")
    assert contents(local / "set" / "data") == contents(source)


@pytest.mark.slow
def test_packed_and_shown_and_removed(dlrun, source, local):
    dlrun("stage-data", source, "--to", local, "--strategy", "pack", "--name", "tarred")
    assert (local / "tarred" / "data" / "tarred.tar").is_file()
    dlrun("stage-data", source, "--to", local)
    (listed,) = [json.loads(dlrun("stage-data", "--list", "--to", local, "--json").stdout)["sets"]]
    assert {(one["name"], one["files"]) for one in listed} == {("tarred", 20), ("set", 20)}
    assert "removed tarred" in dlrun("stage-data", "--evict", "tarred", "--to", local).stdout
    assert (
        "there is no data set `tarred`"
        in dlrun("stage-data", "--evict", "tarred", "--to", local, code=1).stderr
    )
    dlrun("stage-data", "--clean", "--to", local)
    assert dlrun("stage-data", "--list", "--to", local).stdout == ""


@pytest.mark.slow
def test_every_action_on_sets_has_json(dlrun, source, local):
    for name in ("one", "two"):
        dlrun("stage-data", source, "--to", local, "--name", name)
    said = {
        option: json.loads(dlrun("stage-data", *option.split(), "--to", local, "--json").stdout)
        for option in ("--verify-set one", "--evict one", "--clean")
    }
    assert said == {
        "--verify-set one": {"version": 1, "verified": "one", "files": 20, "bytes": 20_000},
        "--evict one": {"version": 1, "removed": ["one"]},
        "--clean": {"version": 1, "removed": ["two"]},
    }


@pytest.mark.slow
def test_a_job_of_its_own_brings_the_data(dlrun, source, local):
    spec = dlrun.spec(f"command: [x]\ndata: {{one: {{source: '{source}', strategy: copy, keep: job}}}}\n")
    ran = dlrun("stage-data", spec, "--submit", "--wait", "--to", local)
    assert "submitted stage-run to workstation" in ran.stdout
    assert contents(local / "one" / "data") == contents(source), "kept: that is what the job was for"


@pytest.mark.slow
def test_a_job_of_its_own_is_followed_by_machines(dlrun, source, local):
    spec = dlrun.spec(f"command: [x]\ndata: {{one: {{source: '{source}', strategy: copy}}}}\n")
    ran = dlrun("stage-data", spec, "--submit", "--wait", "--to", local, "--json")
    first, *events, last = [json.loads(line) for line in ran.stdout.splitlines()]
    assert first["job"]["name"] == "stage-run"
    assert [(event["event"], event["name"]) for event in events] == [("done", "one")]
    assert last["stage"]["sets"] == {"one": str(local / "one" / "data")}
    assert (last["stage"]["nodes"], last["stage"]["reports"]["one"]["how"]) == (1, "copied")
    assert {line["version"] for line in (first, *events, last)} == {1}


@pytest.mark.slow
def test_a_job_that_could_not_stage_has_no_last_document(dlrun, source, local):
    spec = dlrun.spec(f"command: [x]\ndata: {{one: {{source: '{source}', strategy: copy, size: 1GB}}}}\n")
    ran = dlrun("stage-data", spec, "--submit", "--wait", "--to", local, "--json", code=1)
    assert [list(json.loads(line)) for line in ran.stdout.splitlines()] == [["version", "job"]]


def test_what_is_read_in_place_is_told_to_machines_too(dlrun, source, local):
    spec = dlrun.spec(f"command: [x]\ndata: {{one: {{source: '{source}', strategy: in_place}}}}\n")
    for more in ([], ["--submit"]):
        ran = dlrun("stage-data", spec, "--to", local, "--json", *more)
        assert json.loads(ran.stdout.splitlines()[-1])["stage"]["sets"] == {"one": str(source)}


def test_what_does_not_fit_is_read_in_place_and_advice_is_given(dlrun, source):
    (dlrun.place / "site.yaml").write_text(
        "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
        f"storage: {{node_local: {{path: '{dlrun.place}', size: 10KB}}}}\n"
    )
    spec = dlrun.spec(f"site: site.yaml\ncommand: [x]\ndata: {{one: {{source: '{source}'}}}}\n")
    ran = dlrun("stage-data", spec)
    assert ran.stdout.splitlines() == [str(source)]
    assert "its 20KB in 20 files does not fit the 10KB of node-local storage" in ran.stderr
    told = dlrun("explain", "data.one.advice", spec).stdout
    assert "lfs setstripe -c 2 -S 4M" in told


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "give a spec or a source"),
        (["nothing-here", "--to", "/tmp"], 2, "the source `nothing-here` does not exist"),
        (["set", "--to", "relative"], 2, "`relative` is not an absolute path"),
        (["set", "set", "--to", "/tmp/x"], 2, "two sources would both be `set`"),
        (["a.yaml", "set"], 2, "name either one spec or sources"),
        (["none.yaml"], 2, "none.yaml"),
        (["set", "--to", "/tmp/x", "--rate", "7"], 2, "--rate: `7` is not a size"),
        (["set", "--to", "/tmp/x", "--rate", "0B"], 2, "--rate: `0B` is too little"),
        (["set", "--to", "/tmp/x", "--quota", "0GB"], 2, "--quota: `0GB` is too little"),
        (["set", "--to", "/proc/nowhere"], 1, "there is no node-local storage at `/proc/nowhere`"),
        (
            ["set", "--to", "/tmp/$NOWHERE/x"],
            2,
            "`$NOWHERE` in the staging directory `/tmp/${NOWHERE}/x` is not set",
        ),
        (
            ["--list", "--to", "/tmp/$NOWHERE"],
            2,
            "`$NOWHERE` in the staging directory `/tmp/${NOWHERE}` is not set",
        ),
        (["", "--to", "/tmp/x"], 2, "a source is empty"),
        (["set", "--to", "."], 2, "`.` is not an absolute path"),
        (["--list", "set"], 2, "take no SPEC or SOURCE"),
    ],
)
def test_what_cannot_be_is_one_clear_error(dlrun, source, words, code, said):
    ran = dlrun("stage-data", *words, code=code)
    assert said in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize(
    ("made", "source", "name"),
    [
        ("set", "set/*.bin", "set"),
        ("set", "se?/1*", "data"),
        ("2012", "2012", "_2012"),
        ("a-b", "a-b", "a_b"),
    ],
)
def test_a_source_gives_the_data_set_its_name(dlrun, local, made, source, name):
    (dlrun.place / made).mkdir()
    (dlrun.place / made / "1.bin").write_bytes(b"1")
    ran = dlrun("stage-data", source, "--to", local)
    assert ran.stdout.splitlines() == [str(local / name / "data")]
    assert list(contents(local / name / "data").values()) == [b"1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--name", "a b"), "--name: `a b` cannot name a data set"),
        (("--name", "1a"), "--name: `1a` cannot name a data set"),
        (("--name", ""), "--name: `` cannot name a data set"),
        (("--name", "a" * 129), "--name: `" + "a" * 129 + "` cannot name a data set"),
        (("--quota", "much"), "--quota: `much` is not a size"),
    ],
)
def test_an_option_that_is_wrong_is_named_before_anything_is_copied(dlrun, source, local, words, said):
    ran = dlrun("stage-data", source, "--to", local, *words, code=2)
    assert ran.stderr.startswith(f"error: {said}\n")
    assert not local.exists()


@pytest.mark.slow
def test_a_quota_makes_room_by_what_was_used_longest_ago(dlrun, source, local):
    for name in ("one", "two", "three"):
        dlrun("stage-data", source, "--to", local, "--name", name, "--quota", "50kB")
    listed = json.loads(dlrun("stage-data", "--list", "--to", local, "--json").stdout)["sets"]
    assert [one["name"] for one in listed] == ["two", "three"]


@pytest.mark.slow
def test_what_cannot_be_staged_is_told_with_a_way_that_this_command_has(dlrun, source, local):
    os.mkfifo(source / "pipe")
    ran = dlrun("stage-data", source, "--to", local, code=1)
    assert "`pipe`" in ran.stderr
    assert "leave them out with `exclude` (--exclude)" in ran.stderr
    dlrun("stage-data", source, "--to", local, "--exclude", "pipe")
    assert len(contents(local / "set" / "data")) == 20


@pytest.mark.slow
def test_an_interrupt_is_told_once_with_what_stays(dlrun, source, local):
    words = ["stage-data", source, "--to", local]
    with dlrun.start(*words, "--rate", "10B", start_new_session=True) as process:
        while ": 0 %," not in (said := process.stderr.readline()):
            assert said, "it ended by itself"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: dlrun and the node program at once
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.count("interrupted") == 1, stderr
    assert stderr.endswith(
        "error: interrupted\n"
        "  = help: blocks that were copied and checked are kept; the same command resumes from there\n"
    )
    dlrun(*words)
    assert len(contents(local / "set" / "data")) == 20


@pytest.fixture
def small(dlrun) -> Iterator[Path]:
    """A disk of 2 MB, of which 0.4 MB have a staged set of 0.4 MB."""
    place = dlrun.place / "small"
    place.mkdir()
    options = "size=2m,mode=0700"
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=False, capture_output=True
    ).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        random_files(dlrun.place / "earlier", 20, 20_000)
        dlrun("stage-data", "earlier", "--to", place)
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def random_files(place: Path, count: int, size: int) -> Path:
    place.mkdir(exist_ok=True)
    for number in range(count):
        (place / f"{size}-{number}.bin").write_bytes(os.urandom(size))
    return place


@contextmanager
def nothing_half_there(dlrun, small: Path) -> Iterator[None]:
    """What stays is what was there before, but for empty locks; and the earlier set is still known and whole."""

    def there() -> dict[str, bytes]:
        return {name: data for name, data in contents(small).items() if not name.startswith(".dlrun/used.")}

    def directories() -> set[Path]:
        return {path for path in small.rglob("*") if path.is_dir()}

    before = there(), directories()
    yield
    (small / "filler").unlink(missing_ok=True)
    after = {name: data for name, data in there().items() if data or not name.startswith(".dlrun/lock.")}
    assert after == {name: data for name, data in before[0].items() if data}
    assert directories() == before[1]
    assert "20 files" in dlrun("stage-data", "--verify-set", "earlier", "--to", small).stdout


def one_error(stderr: str, *texts: str) -> None:
    assert stderr.count("error: ") == 1, stderr
    assert stderr.rstrip().splitlines()[-1].startswith("  = help: "), stderr
    for text in texts:
        assert text in stderr


@pytest.mark.needs("mount", "umount")
@pytest.mark.parametrize(
    "strategy",
    ["copy", pytest.param("pack", marks=pytest.mark.slow), pytest.param("shard", marks=pytest.mark.slow)],
)
def test_what_does_not_fit_the_disk_is_refused_before_the_first_byte(dlrun, small, strategy):
    random_files(dlrun.place / "large", 8, 1_000_000)
    with nothing_half_there(dlrun, small):
        ran = dlrun("stage-data", "large", "--to", small, "--strategy", strategy, code=1)
        one_error(ran.stderr, f"`{small}` needs 8.0", "dlrun stage-data --evict NAME")
        assert ran.stdout == ""


@pytest.mark.slow
@pytest.mark.needs("mount", "umount")
def test_a_set_that_has_grown_too_large_leaves_its_earlier_version(dlrun, small):
    random_files(dlrun.place / "earlier", 1, 3_000_000)
    with nothing_half_there(dlrun, small):
        one_error(
            dlrun("stage-data", "earlier", "--to", small, "--strategy", "copy", code=1).stderr, "needs 3.0"
        )


@pytest.mark.slow
@pytest.mark.needs("mount", "umount")
def test_a_disk_that_fills_up_during_the_copy(dlrun, small):
    source = random_files(dlrun.place / "other", 60, 15_000)
    (source / "folder").mkdir()  # made when the room is found; the files follow at the rate, all at once
    words = ["stage-data", source, "--to", small, "--strategy", "copy", "--rate", "100kB"]
    with nothing_half_there(dlrun, small):
        with dlrun.start(*words) as process:
            while not (small / ".dlrun/part.other/data/folder").exists():
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.01)
            with suppress(OSError), (small / "filler").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            stdout, stderr = process.communicate(timeout=60)
        assert (process.returncode, stdout) == (1, "")
        one_error(stderr)
        assert "No space left on device" in stderr or "the disk filled up while" in stderr


class Endless(BaseHTTPRequestHandler):
    """A file of 8 MB, whose size the server does not name."""

    protocol_version = "HTTP/1.1"
    etag = '"1"'

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        if self.etag:
            self.send_header("ETag", self.etag)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        with suppress(OSError):
            for _ in range(80):
                self.wfile.write(b"186a0\r\n" + bytes(100_000) + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *words: object) -> None:
        """Nothing."""


@pytest.fixture
def endless() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/one.tar"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.needs("mount", "umount")
def test_a_download_that_fills_the_disk_is_removed(dlrun, small, endless):
    with nothing_half_there(dlrun, small):
        ran = dlrun("stage-data", endless, "--name", "web", "--to", small, code=1)
        one_error(ran.stderr, f"cannot fetch `{endless}`: No space left on device", "--evict NAME")
        assert "fetching it with Python" in ran.stderr


@pytest.mark.slow
def test_a_source_that_is_refused_leaves_nothing(dlrun, local, endless, monkeypatch):
    monkeypatch.setattr(Endless, "etag", "")
    one_error(
        dlrun("stage-data", endless, "--name", "web", "--to", local, code=1).stderr,
        "neither an ETag nor a time",
    )
    assert [path.name for path in local.rglob("*")] == [".dlrun", "lock.web"]


@pytest.mark.slow
def test_clean_removes_the_part_of_a_download_that_was_killed(dlrun, source, local):
    dlrun("stage-data", source, "--to", local)
    part = local / ".dlrun" / "fetch.web" / "data"
    part.mkdir(parents=True, mode=0o700)
    (part / "one.tar").write_bytes(b"begin")
    assert "removed set" in dlrun("stage-data", "--clean", "--to", local).stdout
    assert not part.parent.exists()
