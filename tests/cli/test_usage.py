"""What a job uses, recorded beside it and shown: by whole jobs on this machine."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import wait_for
from tests.examples import cases

RECORDED = """
import json, os, time
place = os.environ['DLRUN_RUN_DIR'] + '/usage'
def lines():
    texts = [open(place + '/' + name).read() for name in (os.listdir(place) if os.path.isdir(place) else [])]
    return [json.loads(line) for text in texts for line in text.split('\\n')[:-1]]
while sum(len(line.get('ranks', '')) >= int(os.environ['WORLD_SIZE']) for line in lines()) < 2: time.sleep(0.1)
"""
"""A program that ends once two samples have all of its ranks, whenever the sampler comes to that."""


def records(job: Path) -> list[dict]:
    """What has been written so far, by lines that are complete."""
    texts = [file.read_text() for file in (job / "usage").glob("*")]
    return [json.loads(line) for text in texts for line in text.split("\n")[:-1]]


def spec(program: str, more: str = "") -> str:
    return f"command: [python3, -c, {json.dumps(program)}]\nresources: {{ranks_per_node: 2}}\n{more}"


ONE_WORKS = """
import os, time
while not os.path.exists('seen'):
    if os.environ['RANK'] == '1': time.sleep(0.1)
"""
"""The first rank works and the second rests, both until they have been looked at."""


@pytest.mark.slow
def test_each_rank_is_recorded(dlrun):
    began = time.monotonic()
    job = dlrun.submit(spec(ONE_WORKS))

    def cpu() -> list[float]:
        """Seconds of CPU time of each rank, as last recorded."""
        found = records(job)
        ranks = next((one["ranks"] for one in reversed(found) if one.get("ranks")), {})
        return [row[found[0]["columns"]["rank"].index("cpu")] for _, row in sorted(ranks.items())]

    wait_for(lambda: len(found := cpu()) == 2 and found[0] > found[1] + 2)
    (dlrun.place / "seen").touch()
    wait_for(lambda: not dlrun.alive())
    last = records(job)[-1]
    assert last["kind"] == "end"
    assert sorted(last["ranks"]) == ["rank-0", "rank-1"]
    assert cpu()[1] < cpu()[0] < time.monotonic() - began, (
        "a rank of one thread: at most the time that passed"
    )
    assert last["own"][1] < 30 << 20


@pytest.mark.slow
def test_a_recording_that_breaks_off(dlrun):
    """As of a node that died, or whose disk was full: what is there is shown, and how far it goes."""
    job = dlrun.submit(spec(RECORDED), "--wait")
    (file,) = (job / "usage").iterdir()
    text = file.read_text()
    file.write_text(text[: text.rindex('{"kind":"end"') + 40])
    (run,) = json.loads(dlrun("usage", job, "--json").stdout)["usage"]
    assert [node["complete"] for node in run["use"]["nodes"]] == [False]
    assert [rank["rank"] for rank in run["use"]["ranks"]] == ["rank-0", "rank-1"]
    assert f"the recording of {file.stem} stops after " in dlrun("usage", job).stdout


KNOWN = """
import json, os, subprocess, sys, time
def ticks(pid):
    return [int(word) / os.sysconf('SC_CLK_TCK') for word in open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[11:15]]
kept = bytearray(int(sys.argv[1]) << 20)
kept[::4096] = b'x' * len(kept[::4096])
child = subprocess.Popen([sys.executable, __file__, '60', 'child'], stdout=subprocess.PIPE) if len(sys.argv) == 2 else None
until = time.process_time() + 5
while time.process_time() < until: pass
(high,) = [int(line.split()[1]) << 10 for line in open('/proc/self/status') if line.startswith('VmHWM')]
mine = [time.process_time(), high]
if child:
    mine = [sum(ticks(os.getppid())) + mine[0], high]
    mine = [a + b for a, b in zip(mine, json.loads(child.stdout.readline()))]
print(json.dumps(mine), flush=True)
while not os.path.exists('seen'): time.sleep(1)
"""
"""Of known memory and CPU time: prints the kernel's numbers of itself, its child and its rank.sh, then rests until looked at."""


@pytest.mark.slow
def test_the_numbers_are_within_two_percent_of_the_kernels(dlrun):
    (dlrun.place / "known.py").write_text(KNOWN)
    job = dlrun.submit("command: [python3, known.py, '120']\nresources: {ranks_per_node: 1}\n")
    log = job / "logs/rank-0.log"
    wait_for(lambda: log.exists() and log.read_text().endswith("]\n"))
    cpu, memory = json.loads(log.read_text().splitlines()[-1])
    assert memory > 180 << 20
    before = len(records(job))
    wait_for(lambda: len(records(job)) >= before + 2)  # the second one began after that
    (run,) = json.loads(dlrun("usage", job, "--json").stdout)["usage"]
    (dlrun.place / "seen").touch()
    (rank,) = run["use"]["ranks"]
    assert rank["peak"] == pytest.approx(memory, rel=0.02)
    assert rank["cpu"] == pytest.approx(cpu, rel=0.02)
    wait_for(lambda: not dlrun.alive())


@pytest.mark.slow
def test_it_can_be_turned_off(dlrun):
    job = dlrun.submit(spec("pass", "usage: false\n"), "--wait")
    assert not (job / "usage").exists()
    assert not (job / "usage.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "obstacle",
    cases(
        [
            "rm usage.py",
            "echo nothing >usage.py",
            "rmdir usage",
            "rmdir usage && touch usage",
            "rmdir usage && ln -s /dev/full usage",
        ],
        quick=2,
    ),
    ids=["missing", "damaged", "removed", "no-directory", "full-disk"],
)
def test_a_job_does_not_fail_for_want_of_it(dlrun, obstacle):
    job = dlrun.submit(
        spec(
            "import time; time.sleep(1)",
            f"environment: {{setup: ['cd $DLRUN_JOB_DIR', {obstacle!r}, 'cd - >/dev/null']}}\n",
        ),
        "--wait",
    )
    assert json.loads((job / "state.json").read_text())["exit_code"] == 0
    assert not dlrun.alive()


@pytest.mark.slow
def test_what_a_job_used(dlrun):
    idle = "import os, time\nwhile not os.path.exists('seen'): time.sleep(0.5)"
    job = dlrun.submit(spec(idle))
    found = lambda: json.loads(dlrun("usage", job, "--json").stdout)["usage"][0]["verdicts"]  # noqa: E731
    wait_for(lambda: records(job))
    wait_for(found, 300)
    (dlrun.place / "seen").touch()
    wait_for(lambda: not dlrun.alive())
    shown = dlrun("usage", "latest").stdout
    assert shown.startswith(f"{job.name}: completed; queued ")
    assert "idle: all ranks used next to nothing for " in shown
    narrow, _ = on_terminal(dlrun, ["usage", job.name], [], columns=80)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in narrow.splitlines()]
    assert max(map(len, lines)) <= 80
    assert (
        " ".join(line.strip() for line in lines).count("no cores, no disk, and no network that is full") == 1
    )
    (run,) = json.loads(dlrun("usage", job, "--json").stdout)["usage"]
    assert [one["rule"] for one in run["verdicts"]] == ["idle"]
    header, *rows = dlrun("usage", job, "--csv").stdout.splitlines()
    assert header.startswith("point,rank,node,cores,used,cpu")
    assert header.endswith(",near,busy_cores,threads,faults,preempted,allowed,ran_on")
    assert [row.split(",")[1] for row in rows] == ["rank-0", "rank-1"]
    dlrun("report", job, "-o", "page.html")
    page = (dlrun.place / "page.html").read_text()
    assert re.findall(r"<h2>(Requested and used|Usage|Verdicts)</h2>", page) == [
        "Requested and used",
        "Usage",
        "Verdicts",
    ]
    bar = r"<span class='bar'><i style='width:\d+\.\d%'></i></span>\d+%"
    assert re.search(rf"<td>cores</td><td>{bar}</td><td>0\.\d of \d+ on average</td>", page)
    assert re.search(r"<td>time</td><td></td><td>queued \S+, set-up \S+, training \S+", page)
    assert "<td>idle</td>" in page


SAVES = (
    RECORDED
    + """
for step in range(10):
    if step > 1: print(f'step {step}: 100.0 samples/s', flush=True)
    time.sleep(1)
    if step == 5:
        with open('ckpt/' + os.environ['RANK'], 'wb') as file:
            while lines()[-1].get('saving', 0) < 3: time.sleep(0.1)
"""
)
"""Two seconds until its first throughput, and a checkpoint that is open until three seconds of it have been recorded."""


@pytest.mark.slow
def test_where_the_time_went(dlrun):
    (dlrun.place / "ckpt").mkdir()
    more = "checkpoint: {signal: USR1, before_end: 1m, path: ckpt}\n"
    job = dlrun.submit(spec(SAVES, more).replace("2}", "2, walltime: 10m}"), "--wait")
    (run,) = json.loads(dlrun("usage", job, "--json").stdout)["usage"]
    parts = run["phases"]
    assert parts["training"] >= 12
    assert 2 <= parts["starting"] <= parts["training"]
    assert 3 <= parts["saving"] <= parts["training"] - 3
    shown = dlrun("usage", job).stdout.splitlines()[0]
    assert "(start-up " in shown
    assert ", saving " in shown


@pytest.mark.slow
def test_the_time_of_staging_and_of_results(dlrun):
    (dlrun.place / "site.yaml").write_text(
        "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
        f"storage: {{node_local: {{path: {dlrun.place / 'local'}}}}}\n"
    )
    (dlrun.place / "local").mkdir()
    (dlrun.place / "set").mkdir()
    (dlrun.place / "set" / "x").write_bytes(bytes(1 << 20))
    job = dlrun.submit(
        "command: [bash, -c, 'echo 1 >$DLRUN_RESULTS/x']\nresources: {ranks_per_node: 1}\nsite: ./site.yaml\n"
        "data: {one: {source: set, strategy: copy}}\nresults: {to: results}\n",
        "--wait",
    )
    (run,) = json.loads(dlrun("usage", job, "--json").stdout)["usage"]
    parts = run["phases"]
    assert 0 <= parts["staging"] <= parts["preparing"] + 1  # whole seconds
    assert 0 <= parts["results"] <= parts["training"] + 1
    assert "(staging " in dlrun("usage", job).stdout
    assert "copying results " in dlrun("usage", job).stdout


@pytest.mark.slow
def test_points_of_a_sweep_are_a_table(dlrun):
    job = dlrun.submit(spec("pass # {{ s }}", "sweep: {s: [1, 2]}\n"), "--wait")
    lines = dlrun("usage", job).stdout.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["POINT", "s", "STATE"],
        ["0", "1", "completed"],
        ["1", "2", "completed"],
    ]
    assert dlrun("usage", f"{job.name}:1").stdout.startswith(f"{job.name}, point 1: completed")


@pytest.mark.slow
def test_the_runs_of_a_study_are_a_table(dlrun):
    program = (
        "import os; print(90 * int(os.environ['WORLD_SIZE']), 'images/s') # {{ batch_per_rank }}\n" + RECORDED
    )
    dlrun.spec(spec(program, "name: tiny\nbatch_per_rank: 12\nplacement: {threads: 1}\n"))
    dlrun("scale", "spec.yaml", "--ranks-per-node", "1,2", "--repeat", "2")
    lines = [line.split() for line in dlrun("usage", "tiny-scaling").stdout.splitlines()]
    assert lines[0] == ["SIZE", "RUN", "STATE", "TIME", "CORES", "PEAK", "GPUS", "VERDICTS"]
    assert [" ".join(line[:7]) for line in lines[1:]] == [
        "1 node × 1 rank 1x1-1:0 completed", "1 node × 1 rank 1x1-1:1 completed",
        "1 node × 2 ranks 1x2-1:0 completed", "1 node × 2 ranks 1x2-1:1 completed",
    ]  # fmt: skip
    assert len(json.loads(dlrun("usage", "tiny-scaling", "--json").stdout)["usage"]) == 4
    _, *rows = dlrun("usage", "tiny-scaling", "--csv").stdout.splitlines()
    assert [tuple(row.split(",")[:2]) for row in rows] == [
        ("1x1-1:0", "rank-0"), ("1x1-1:1", "rank-0"), ("1x2-1:0", "rank-0"), ("1x2-1:0", "rank-1"), ("1x2-1:1", "rank-0"),
        ("1x2-1:1", "rank-1"),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_job_that_was_not_measured(dlrun):
    dlrun.submit(spec("pass", "usage: false\n"), "--wait")
    assert "not measured: its spec has `usage: false`" in dlrun("usage").stdout


def test_verdicts_are_explained(dlrun):
    shown = dlrun("explain", "loader-bound").stdout
    assert "threshold: 0.5 of the time" in shown
    assert "source:    PyTorch" in shown


@pytest.mark.slow
def test_top_prints_lines_where_there_is_no_terminal(dlrun):
    job = dlrun.submit(
        spec("import time\nfor i in range(600): print('step', i, flush=True); time.sleep(0.2)")
    )
    wait_for(lambda: "step" in dlrun("top", job, "--once").stdout)
    lines = dlrun("top", job.name, "--once").stdout.splitlines()
    assert " running, for " in lines[0]
    (shown,) = [line for line in lines if " rank-1 on " in line]
    assert "cores" in shown
    assert "| step " in shown
    dlrun("cancel", job)
    assert dlrun("top", job).stdout.splitlines()[-1]


def test_top_on_a_terminal(dlrun):
    """Its keys: the log of the second rank, and the end."""
    job = dlrun.submit(
        spec(
            "import os, time\nfor i in range(600): print('step', os.environ['RANK'], flush=True); time.sleep(0.2)"
        )
    )
    wait_for(
        lambda: dlrun("top", job, "--once").stdout.count("| step ") == 2
    )  # a rank that is not shown cannot be chosen
    shown, status = on_terminal(
        dlrun,
        ["top", job.name, "--every", "0.5"],
        [("LAST LINE", b"\x1b[B"), ("LAST LINE", b"\r"), ("rank-1 on", b"q")],
    )
    assert status == 0
    assert "rank-1" in shown
    assert "step 1" in shown
    dlrun("cancel", job)


def on_terminal(
    dlrun, words: list[str], keys: list[tuple[str, bytes]], columns: int = 120
) -> tuple[str, int]:
    """What dlrun draws on a terminal of 30 lines, and its exit code; each key is pressed once its text has been drawn."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    process = dlrun.start(
        *words, env={"TERM": "xterm-256color", "NO_COLOR": None}, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown, seen, until = "", 0, time.monotonic() + 300
    for text, key in keys:
        while text not in shown[seen:]:
            assert time.monotonic() < until, shown
            if select.select([master], [], [], 1)[0]:
                shown += os.read(master, 65536).decode("utf-8", "replace")
        seen = len(shown)
        os.write(master, key)
    while process.poll() is None and time.monotonic() < until:
        if select.select([master], [], [], 0.2)[0]:
            with suppress(OSError):
                shown += os.read(master, 65536).decode("utf-8", "replace")
    os.close(master)
    return shown, process.wait(300)
