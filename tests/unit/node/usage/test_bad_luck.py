"""What a node may lack, and what ranks may do: each costs numbers, which are named, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from dlrun.node import bundle
from dlrun.node.usage import procfs, sampler

from tests.programs import python_of_all
from tests.unit.node.usage.test_sampler import BURN, environment, records, row, run

HIDDEN = """\
mount -t proc -o {option} proc /proc || exit 77
exec setpriv --reuid 65534 --regid 65534 --clear-groups bash -c "$0" rank "$@"
"""
SCRIPT = """\
cd "$DLRUN_RUN_DIR" || exit 1
DLRUN_PROCESS="$DLRUN_RUN_ID rank 0" "$1" -c "$2" &
program=$!
while [[ -e /proc/$program ]] && ! grep -qsz ^DLRUN_PROCESS= "/proc/$program/environ"; do sleep 0.05; done
"$1" -I -S - $$ <usage.py &
sampler=$!
for ((waited = 0; waited < 6000; waited++)); do
  [[ ! -s usage/here.jsonl ]] || break
  sleep 0.05
done
wait $program
kill $sampler
wait $sampler
"""


@pytest.mark.slow
@pytest.mark.needs("unshare", "mount", "setpriv")
@pytest.mark.parametrize("option", ["hidepid=noaccess", "hidepid=invisible"])
def test_a_node_that_hides_the_processes_of_others(tmp_path, option):
    """A /proc of its own that is mounted so, and a user without rights: the user's own processes are still to be seen."""
    if os.geteuid():
        pytest.skip("needs root to mount /proc")
    python = python_of_all()
    place = Path("/tmp") / f"dlrun-hidden-{os.getpid()}-{option[8:]}"  # which a user without rights can enter
    place.mkdir()
    try:
        place.chmod(0o777)
        (place / "usage.py").write_bytes(bundle.single_file(bundle.sources(bundle.SAMPLER), "dlrun_usage"))
        words = ["unshare", "--mount", "--pid", "--fork", "bash", "-c", HIDDEN.format(option=option), SCRIPT]
        words += [python, BURN.format(2)]
        done = subprocess.run(words, env=environment(place), timeout=600, check=False)
        if done.returncode == 77:
            pytest.skip(f"this machine mounts no /proc with {option}")
        assert done.returncode == 0
        found = records(place)
        assert (found[0]["kind"], found[-1]["kind"]) == ("start", "end")
        assert row(found[-1])["cpu"] >= 2
    finally:
        subprocess.run(["rm", "-rf", place], check=True)


@pytest.mark.parametrize(
    ("file", "empty", "named"),
    [
        ("io", ("read", "written", "called"), "read, written, called: /proc/PID/io cannot be read"),
        ("schedstat", ("waited",), "waited: this kernel keeps no /proc/PID/schedstat"),
        ("sched", ("moved",), "moved: this kernel has no /proc/PID/sched"),
        ("pressure", (), "pressure: this kernel keeps none (/proc/pressure)"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, monkeypatch, file, empty, named):
    """The other numbers are there, and the sample says which are not."""
    read = procfs.read

    def closed(path):
        hidden = path.rpartition("/")[2] == file or f"/{file}/" in path
        return None if hidden and path.startswith("/proc/") else read(path)

    monkeypatch.setattr(procfs, "read", closed)
    with rank(tmp_path, BUSY) as (_, look):
        look.sample()
        look.sample(last=True)
    last = records(tmp_path)[-1]
    found = row(last)
    assert all(found[name] is None for name in empty)
    assert found["rss"] > 1 << 20
    everything = {text for record in records(tmp_path) for text in record.get("missing", ())}
    assert named in everything


@contextmanager
def rank(place: Path, program: str) -> Iterator[tuple[int, sampler.Sampler]]:
    """A program that is marked as a rank, below a shell as `rank.sh` is one, once it has begun; and a sampler in this process."""
    marked = environment(place)
    cores = os.sched_getaffinity(0)
    line = [
        "bash",
        "-c",
        'env "DLRUN_PROCESS=$DLRUN_RUN_ID rank 0" "$@"; :',
        "rank",
        sys.executable,
        "-c",
        program,
    ]
    with subprocess.Popen(line, env=marked, stdout=subprocess.PIPE, start_new_session=True) as shell:
        pid = int(shell.stdout.readline())
        look = sampler.Sampler(marked, SimpleNamespace(continued=lambda: False))
        look.begin()
        try:
            yield pid, look
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
            os.sched_setaffinity(0, cores)


BUSY = f"import os\nprint(os.getpid(), flush=True)\n{BURN.format(60)}"
LOADERS = """
import os, signal, time
for _ in range(300):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
print(os.getpid(), flush=True)
signal.pause()
"""


def test_a_rank_with_hundreds_of_loading_processes(tmp_path):
    """All are seen; the record of them stays one short line, and what the look costs makes the next one wait."""
    with rank(tmp_path, LOADERS) as (_, look):
        look.sample()
        look.sample(last=True)
    last = records(tmp_path)[-1]
    assert row(last)["processes"] == 301
    assert len(json.dumps(last)) < 3000
    assert look.pause(0.05) >= 25  # 0.2 % of a core
    assert look.pause(0.0) == 1


def test_a_gpu_that_another_job_uses_as_well(tmp_path, monkeypatch):
    """Its processes are nobody's rank here."""
    with rank(tmp_path, BUSY) as (pid, look):
        look.sample()
        monkeypatch.setattr(look._gpus, "processes", lambda: [[1, pid], [1]])
        assert look._ranks_on_gpus() == [["rank-0"], []]


def test_a_node_without_any_of_it(tmp_path, monkeypatch):
    """A kernel whose /proc has next to nothing in it, as in a sandbox: the recording is still one."""
    monkeypatch.setattr(procfs, "read", lambda path: None)
    monkeypatch.setattr(procfs, "names", lambda path: [])
    before = os.sched_getaffinity(0)
    look = sampler.Sampler(environment(tmp_path), SimpleNamespace(continued=lambda: False))
    look.begin()
    look.sample()
    look.sample(last=True)
    os.sched_setaffinity(0, before)
    found = records(tmp_path)
    assert [record["kind"] for record in found] == ["start", "sample", "end"]
    assert found[-1]["ranks"] == {}


@pytest.mark.slow
def test_a_program_that_removes_its_mark_costs_its_numbers_alone(tmp_path):
    found, _ = run(tmp_path, "env", "-u", "DLRUN_PROCESS", sys.executable, "-c", BURN.format(1))
    assert (found[0]["kind"], found[-1]["kind"]) == ("start", "end")
