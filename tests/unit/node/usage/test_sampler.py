"""The sampler beside real processes: what they use is what it writes, and nothing that happens to it ends a job."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace

import pytest
from dlrun.node import bundle
from dlrun.node.usage import ranks, sampler
from dlrun.node.usage.sampler import Recording

from tests import programs
from tests.examples import cases

SAMPLER = [sys.executable, "-c", "from dlrun.node.usage.sampler import main; main()"]
BURN = "import time\nuntil = time.process_time() + {}\nwhile time.process_time() < until: pass\n"
SEEN = """
import json, os, time
def seen(what, least=0, most=float('inf')):
    path, lines = os.environ['DLRUN_RUN_DIR'] + '/usage/here.jsonl', []
    while not lines or not least <= dict(zip(lines[0]['columns']['rank'], lines[-1]['ranks']['rank-0']))[what] <= most:
        time.sleep(0.05)
        texts = open(path).read().split('\\n')[:-1] if os.path.exists(path) else []
        lines = [line for line in map(json.loads, texts) if line['kind'] == 'start' or 'rank-0' in line.get('ranks', '')]
        lines = lines[1:] and lines
"""
"""For a program that goes on once the last sample has such a value, whenever the sampler comes to that."""
RANK = """\
DLRUN_PROCESS="$DLRUN_RUN_ID rank 0" "$@" &
program=$!
while [[ -e /proc/$program ]] && ! grep -qsz ^DLRUN_PROCESS= "/proc/$program/environ"; do sleep 0.05; done
{sampler} $$ &
sampler=$!
until [[ -s $DLRUN_RUN_DIR/usage/here.jsonl ]]; do sleep 0.05; done
wait $program
kill $sampler
wait $sampler
"""
"""As `rank.sh` does it: the program, then the sampler beside it, and at the end a SIGTERM to that."""


def records(place: Path) -> list[dict]:
    return [json.loads(line) for line in (place / "usage" / "here.jsonl").read_text().splitlines()]


def environment(place: Path) -> dict[str, str]:
    run = {"DLRUN_RUN_DIR": str(place), "DLRUN_RUN_ID": f"{os.getpid()}.0", "DLRUN_HOST": "here"}
    return {**os.environ, **run, "DLRUN_NODE_RANK": "0", "DLRUN_JOB_ID": str(os.getpid())}


def run(place: Path, *program: str, cores: str = "") -> tuple[list[dict], float]:
    """What the sampler wrote of a rank that is bound to `cores`, and the CPU time that the kernel counted of it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    script = RANK.format(sampler=" ".join(f"'{word}'" for word in SAMPLER))
    bound = ["taskset", "-c", cores] if cores else []
    subprocess.run(
        [*bound, "bash", "-c", script, "rank", *program], env=environment(place), check=True, timeout=600
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = records(place)
    own = found[-1]["own"][0]
    return found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - own


def row(record: dict, rank: str = "rank-0") -> dict:
    return dict(zip(ranks.COLUMNS, record["ranks"][rank], strict=True))


@pytest.mark.slow
def test_the_cpu_time_of_a_rank_is_that_of_all_its_processes(tmp_path):
    two = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN.format(2)!r}])\n"
        + BURN.format(4)
    )
    found, counted = run(tmp_path, sys.executable, "-c", two)
    assert [record["kind"] for record in found[:2]] == ["start", "rank"]
    assert found[-1]["kind"] == "end"
    last = row(found[-1])
    assert last["cpu"] == pytest.approx(counted, abs=1)  # bash, its sleeps and the sampler's start are small
    assert last["cpu"] >= 6


BUSY = """
import os, time
from dlrun.node.usage import ranks
quick, mark = ranks.Ranks.sample, os.environ['DLRUN_RUN_DIR'] + '/samples'
def slow(self):
    quick(self)
    open(mark, 'w').close()
    time.sleep(1.8)
    os.remove(mark)
ranks.Ranks.sample = slow
"""
"""Samples that take most of the time, as on a node whose cores are all busy."""


def trace(request: int, process: int) -> None:
    """ptrace(2)."""
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if call(request, process, None, None) < 0:
        pytest.skip(f"ptrace is not possible here: {os.strerror(ctypes.get_errno())}")


@contextmanager
def signalled(process: int) -> Iterator[None]:
    """Stopped and continued by signals, as by schedulers without cgroups."""
    os.kill(process, signal.SIGSTOP)
    yield
    os.kill(process, signal.SIGCONT)


@contextmanager
def frozen(process: int) -> Iterator[None]:
    """Without a signal, as by the freezer of a cgroup."""
    trace(16, process)  # PTRACE_ATTACH
    os.waitpid(process, 0)
    yield
    trace(17, process)  # PTRACE_DETACH


SUSPENDED = product(["both", "idle", "sampler"], ["samples", "waits"], [frozen, signalled])
"""What is stopped, what it does meanwhile, and how."""


@pytest.mark.parametrize(("stopped", "while_it", "way"), cases(SUSPENDED, quick=0))
def test_it_goes_on_after_its_job_was_suspended(tmp_path, stopped, while_it, way):
    """Slurm stops and continues all processes of a job; if only the sampler is stopped, the rank's time goes on."""
    (tmp_path / "usage").mkdir()
    file = tmp_path / "usage" / "here.jsonl"

    def wait_for_lines(count: int) -> list[dict]:
        until = time.monotonic() + 300
        while not file.exists() or len(records(tmp_path)) < count:
            assert time.monotonic() < until
            time.sleep(0.05)
        return records(tmp_path)

    mark = {"DLRUN_PROCESS": f"{os.getpid()}.0 rank 0"}
    # Where its time is to go on it works while the sampler is stopped, and little before: it may get little of a busy machine.
    rests = (
        "import os, time\nwhile not os.path.exists('go'): time.sleep(0.1)\n" if stopped == "sampler" else ""
    )
    rank = ["sleep", "6000"] if stopped == "idle" else [sys.executable, "-c", rests + BURN.format(6000)]
    sampling = [SAMPLER[0], "-c", (BUSY if while_it == "samples" else "") + SAMPLER[2], str(os.getpid())]
    with (
        subprocess.Popen(rank, env=environment(tmp_path) | mark, cwd=tmp_path) as program,
        subprocess.Popen(sampling, env=environment(tmp_path)) as started,
        ExitStack() as at_the_end,
    ):
        at_the_end.callback(started.kill)
        at_the_end.callback(program.kill)  # a stopped one, too
        before = wait_for_lines(4)
        if stopped == "both":
            program.send_signal(signal.SIGSTOP)
            before = wait_for_lines(
                len(before) + 2
            )  # which have all that it computed, however busy the machine is
        seen = time.monotonic()
        if while_it == "samples":
            while not (tmp_path / "samples").exists():
                time.sleep(0.01)
        else:
            time.sleep(0.5)  # it waits for its next sample then
        with way(started.pid):
            (tmp_path / "go").touch()
            time.sleep(25)
        after = wait_for_lines(len(before) + 2)
        assert "end" not in [one["kind"] for one in after]
        started.terminate()
        assert started.wait(120) == 0
        took = time.monotonic() - seen
    last = records(tmp_path)[-1]
    assert last["kind"] == "end"
    not_counted = 0 if stopped == "sampler" else 25
    assert last.get("suspended", 0.0) == pytest.approx(not_counted, abs=12)
    assert took - (last["t"] - before[-1]["t"]) == pytest.approx(not_counted, abs=12)


@pytest.mark.slow
@pytest.mark.needs
@pytest.mark.parametrize("minor", [6, 7, 8, 9, 12, 13, 14])
def test_its_one_file_runs_on_every_python(tmp_path, monkeypatch, minor):
    python = programs.python(minor)
    whole = tmp_path / "usage.py"
    whole.write_bytes(bundle.single_file(bundle.sources(bundle.SAMPLER), "dlrun_usage"))
    read = ["bash", "-c", 'exec "$0" -I -S -W error - "$2" <"$1"', python, str(whole)]
    monkeypatch.setitem(globals(), "SAMPLER", read)
    found, _ = run(tmp_path, sys.executable, "-c", BURN.format(1))
    assert [record["kind"] for record in (*found[:1], *found[-1:])] == ["start", "end"]
    assert row(found[-1])["cpu"] >= 1


@pytest.mark.slow
def test_what_ends_together_with_its_parent_counts_once(tmp_path):
    """Loading processes that the program ends and waits for as it ends itself, between two samples."""
    burn = f"import sys\n{BURN.format(3)}"
    program = (
        "import subprocess, sys\n"
        f"children = [subprocess.Popen([sys.executable, '-c', {burn!r}]) for _ in range(2)]\n"
        "for child in children: child.wait()\n"
    )
    found, counted = run(tmp_path, sys.executable, "-c", program)
    assert row(found[-1])["cpu"] == pytest.approx(counted, abs=1)


@pytest.mark.slow
def test_memory_is_what_is_resident_and_its_peak_stays(tmp_path):
    program = SEEN + "x = bytearray(100 << 20)\nseen('rss', 100 << 20)\ndel x\nseen('rss', 1, 60 << 20)\n"
    found, _ = run(tmp_path, sys.executable, "-c", program)
    assert 100 << 20 < row(found[-1])["peak"] < 140 << 20


@pytest.mark.slow
def test_a_process_that_detaches_itself_still_counts(tmp_path):
    program = (
        SEEN
        + "ends = os.pipe()\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n"
        + "".join(f"  {line}\n" for line in BURN.format(2).splitlines())
        + "  seen('cpu', 1)\n  os._exit(0)\n os._exit(0)\nos.close(ends[1])\nos.read(ends[0], 1)\n"  # to the end of both
    )
    found, _ = run(tmp_path, sys.executable, "-c", program)
    assert max(row(record)["cpu"] for record in found if record.get("ranks", {}).get("rank-0")) >= 1


@pytest.mark.slow
@pytest.mark.each_python
def test_it_ends_with_the_process_that_started_it(tmp_path):
    script = " ".join(f"'{word}'" for word in SAMPLER) + " $$ & echo $!"
    started = subprocess.run(
        ["bash", "-c", script],
        env=environment(tmp_path),
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    until = time.monotonic() + 60
    while Path(f"/proc/{started.stdout.strip()}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert time.monotonic() < until


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_for_the_job_do_not_end_it(tmp_path, name):
    with subprocess.Popen([*SAMPLER, str(os.getpid())], env=environment(tmp_path)) as sampler:
        until = time.monotonic() + 300
        while not (tmp_path / "usage" / "here.jsonl").exists() and time.monotonic() < until:
            time.sleep(0.05)
        before = len(records(tmp_path))
        sampler.send_signal(name)
        while len(records(tmp_path)) <= before and time.monotonic() < until:
            time.sleep(0.05)
        sampler.terminate()
        assert sampler.wait(60) == 0
    assert records(tmp_path)[-1]["kind"] == "end"


def test_a_full_disk_ends_the_recording_and_nothing_else():
    file = Recording("/dev/full")
    assert file.open
    file.write({"kind": "sample"})
    assert not file.open
    file.write({"kind": "sample"})


def test_a_line_that_was_cut_does_not_spoil_the_next(tmp_path):
    path = tmp_path / "usage" / "here.jsonl"
    path.parent.mkdir()
    path.write_text('{"kind":"sta')
    file = Recording(str(path))
    file.write({"kind": "start"})
    assert path.read_text() == '{"kind":"sta\n{"kind":"start"}\n'


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path):
    (tmp_path / "usage").mkdir()
    (tmp_path / "usage" / "here.jsonl").symlink_to(tmp_path / "other")
    assert not Recording(str(tmp_path / "usage" / "here.jsonl")).open
    assert not (tmp_path / "other").exists()


def test_a_file_grows_by_less_than_a_megabyte_a_day(tmp_path):
    file = Recording(str(tmp_path / "usage" / "here.jsonl"))
    hour, written = {"kind": "sample", "ranks": "x" * 5000}, 0
    for second in range(0, 3 * 86400, 5):
        if file.has_room(second):
            file.write(hour)
        if second and second % 86400 == 0:
            size = (tmp_path / "usage" / "here.jsonl").stat().st_size
            assert size - written < 1_000_000
            written = size
    assert written > 1_000_000


class Clock:
    """A clock that a test sets; it stands in for `time` in a module."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1e9 + self.now


@pytest.fixture
def sampling(tmp_path, monkeypatch):
    """A sampler in this process, and its clock."""
    clock, cores = Clock(), os.sched_getaffinity(0)
    monkeypatch.setattr(sampler, "time", clock)
    yield sampler.Sampler(environment(tmp_path), SimpleNamespace(continued=lambda: False)), clock
    os.sched_setaffinity(0, cores)


def test_it_looks_every_second_at_first_and_once_a_minute_after_six_hours(sampling):
    look, clock = sampling
    pauses = []
    for clock.now in (0, 19, 21, 119, 121, 899, 901, 3599, 3601, 6 * 3600 - 1, 6 * 3600, 30 * 86400):
        pauses.append(look.pause(cost=0.0))
    assert pauses == [1, 1, 2, 2, 5, 5, 15, 15, 30, 30, 60, 60]
    clock.now = 10
    assert look.pause(cost=0.04) == pytest.approx(20)  # so that it takes 0.2 % of a core


def test_a_day_of_samples_is_less_than_a_megabyte(tmp_path, sampling):
    """At its own pace, with as many ranks as large nodes have: samples that find no room are lost, the last is not."""
    look, clock = sampling
    row = [123456789.25] * len(ranks.COLUMNS)
    for number in range(64):
        look._ranks.ranks[f"rank-{number}"] = SimpleNamespace(
            row=lambda busy: row, missing=set(), announced=True, main=None, processes={}, cpu=0.0
        )
    look._write = written = Written(look)
    look._ranks.sample = look._locality.look = lambda *_: None
    look._placed = True
    sizes = []
    while clock.now < 2 * 86400:
        look.sample()
        pause = look.pause(cost=0.0)
        clock.now += pause
        look.check_suspended(pause)
        if len(sizes) < clock.now // 86400:
            sizes.append((tmp_path / "usage" / "here.jsonl").stat().st_size)
    look.sample(last=True)
    assert all(after - before < 1_000_000 for before, after in pairwise([0, *sizes]))
    assert sizes[-1] > 1_200_000
    assert written.count > 100
    assert records(tmp_path)[-1]["kind"] == "end"


class Written:
    """`Sampler._write`, counted; what it reads of this machine is left out, for thousands of samples."""

    def __init__(self, look: sampler.Sampler) -> None:
        self.count, self._look = 0, look

    def __call__(self, elapsed: float, last: bool) -> None:
        self.count += 1
        rows = {name: one.row(set()) for name, one in self._look._ranks.ranks.items()}
        self._look.file.write({"kind": "end" if last else "sample", "t": elapsed, "ranks": rows})


@pytest.mark.parametrize(
    ("of_ranks", "expected"),
    [([{0, 1}, {2, 3}], {4, 5}), ([{0, 1, 2, 3, 4, 5}], {0, 1, 2, 3, 4, 5}), ([set()], {0, 1, 2, 3, 4, 5})],
    ids=["free-cores", "all-taken", "unknown"],
)
def test_it_runs_on_cores_that_no_rank_owns(sampling, monkeypatch, of_ranks, expected):
    look, _ = sampling
    bound = [frozenset(range(6))]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(bound[-1]))
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: bound.append(frozenset(cores)))
    for number, cores in enumerate(of_ranks):
        look._ranks.ranks[f"rank-{number}"] = SimpleNamespace(cores=frozenset(cores))
    look._avoid_rank_cores()
    assert bound[-1] == expected


@pytest.mark.slow
@pytest.mark.each_python
def test_a_real_sampler_leaves_the_core_of_a_rank(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core: none is left")
    program = (
        "import os, time\nuntil, found = time.monotonic() + 300, [-1]\n"
        "def command(pid):\n try: return open(f'/proc/{pid}/cmdline').read()\n except OSError: return ''\n"
        f"while found != {cores[1:]} and time.monotonic() < until:\n"
        " for pid in open('/proc/{0}/task/{0}/children'.format(os.getppid())).read().split():\n"
        "  if int(pid) != os.getpid() and 'sampler' in command(pid):\n"
        "   found = sorted(os.sched_getaffinity(int(pid)))\n"
        f"open({str(tmp_path / 'cores')!r}, 'w').write(str(found))\n"
    )
    found, _ = run(tmp_path, sys.executable, "-c", program, cores=str(cores[0]))
    (announced,) = [one for one in found if one["kind"] == "rank"]
    assert announced["cores"] == str(cores[0])
    assert (tmp_path / "cores").read_text() == str(cores[1:])
