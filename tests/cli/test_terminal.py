"""What commands draw on a terminal: tables that fit its width, in colour unless that is refused, and rich only there."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

STYLE = re.compile(r"\x1b\[[0-9;]*m")
PROGRAM = (
    "import json, sys\nfrom dlrun.cli.main import run\nrun(sys.argv[2:])\n"
    "open(sys.argv[1], 'w').write(json.dumps(sorted(sys.modules)))"
)
SWEEP = """\
name: sweep
site: workstation
command: [bash, -c, "echo 'speed: {{ lr }}'; exit $(( {{ lr }} == 2 ))"]
sweep: {lr: [1, 2]}
metrics: {speed: 'speed: ([0-9.]+)'}
resources: {nodes: 1, ranks_per_node: 1, walltime: 5m}
"""


@pytest.fixture
def on_terminal(tmp_path):
    """Run dlrun on a terminal of a width; what it drew, and the modules that it imported."""

    def run(*arguments: str, width: int = 80, **environment: str) -> tuple[str, set[str]]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
        modules = tmp_path / "modules"
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(modules), *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, start_new_session=True,
            env={**clean, "TERM": "xterm-256color", "HOME": str(tmp_path), **environment},
        )  # fmt: skip
        os.close(theirs)
        drawn = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal's other end is closed
                break
            if not part:
                break
            drawn += part
        process.wait()
        os.close(ours)
        return drawn.decode().replace("\r\n", "\n"), set(json.loads(modules.read_text()))

    return run


@pytest.mark.slow
def test_a_table_fits_the_terminal_and_names_the_columns_that_it_leaves_out(on_terminal):
    narrow, modules = on_terminal("site", "list")
    lines = [STYLE.sub("", line) for line in narrow.splitlines()]
    assert "rich" in modules
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[:2] == ["NAME", "SCHEDULER"]
    assert lines[-1] == "not shown at this width: CENTRE"
    wide = STYLE.sub("", on_terminal("site", "list", width=200)[0])
    assert "CENTRE" in wide.splitlines()[0]
    assert "not shown" not in wide


@pytest.mark.slow
def test_a_state_has_its_colour_and_a_user_can_refuse_it(on_terminal, tmp_path):
    (tmp_path / "spec.yaml").write_text(SWEEP)
    on_terminal("submit", "spec.yaml", "--wait")
    drawn, _ = on_terminal("results", width=120)
    assert "\x1b[32mcompleted" in drawn
    assert "\x1b[31mfailed" in drawn
    for refused in (on_terminal("results", NO_COLOR="1"), on_terminal("--color", "never", "results")):
        assert "\x1b[3" not in refused[0]
        assert re.search(r"^1 +2 +failed ", STYLE.sub("", refused[0]), re.MULTILINE)
    dumb, modules = on_terminal("results", TERM="dumb")
    assert "\x1b" not in dumb
    assert "rich" not in modules


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("submit", "spec.yaml", "--dry-run"), ("site", "list", "--json"), ("list", "--json")],
)
def test_rich_is_not_imported_where_nothing_is_drawn(on_terminal, tmp_path, arguments):
    (tmp_path / "spec.yaml").write_text(SWEEP)
    assert "rich" not in on_terminal(*arguments)[1]


@pytest.mark.slow
def test_a_control_character_of_a_users_does_not_reach_the_terminal(on_terminal, tmp_path):
    (tmp_path / "spec.yaml").write_text(
        SWEEP.replace("lr: [1, 2]", 'lr: ["\\e[2J"]').replace("$(( {{ lr }} == 2 ))", "0")
    )
    on_terminal("submit", "spec.yaml", "--wait")
    drawn, _ = on_terminal("results", width=200)
    assert "\\x1b[2J" in drawn
    assert "\x1b[2J" not in drawn


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "spec.yaml"), ("submit", "spec.yaml", "--dry-run"), ("render", "spec.yaml", "--rank"),
        ("explain", "GREETING", "spec.yaml"),
        ("explain", "COLOUR", "spec.yaml"), ("explain", "\x1b[2J", "spec.yaml"), ("plan", "\x1b[2J.yaml"),
        ("logs", "\x1b[2J"), ("site", "show", "./site.yaml"), ("--\x1b[2J",), ("plan", "spec.yaml", "--set", "\x1b[2J=1"),
    ],
)  # fmt: skip
def test_no_command_passes_on_what_steers_the_terminal(on_terminal, tmp_path, arguments):
    (tmp_path / "spec.yaml").write_text(
        'name: steers\nsite: ./site.yaml\ncommand: [echo, "a\\nb\\e[2J\\e]0;title\\a"]\n'
        'environment: {variables: {GREETING: "x\\e[2Jy"}}\nresources: {nodes: 1, ranks_per_node: 1, walltime: 5m}\n'
    )
    (tmp_path / "site.yaml").write_text(
        'name: there\nscheduler: {type: slurm}\nlauncher: {name: srun}\nenvironment: {variables: {COLOUR: "x\\e[2Jy"}}\n'
    )
    drawn, _ = on_terminal(*arguments, width=200)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", STYLE.sub("", drawn)), drawn
    assert re.search(r"\\x1b\[2J|\\E\[2J|\\e\[2J|\\033\[2J", drawn), drawn


STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
EVIL = "\x1b[2J\x1b]0;title\x07\x9b2J"


@pytest.fixture
def poisoned(on_terminal, tmp_path):
    """A job that ran here, and in whose files every text that another program wrote steers a terminal."""
    spec = SWEEP.replace("echo 'speed", "sleep 7; echo 'speed")  # its use is recorded by then
    (tmp_path / "spec.yaml").write_text(spec)
    on_terminal("submit", "spec.yaml", "--wait", width=200)
    jobs = Path(os.environ["DLRUN_JOBS"])
    (job,) = (path for path in jobs.glob("[!.]*") if path.is_dir() and not path.is_symlink())
    for run in sorted(job.glob("points/*")):
        for log in run.glob("logs/*.log"):
            log.write_text(
                f"speed: 7{EVIL}\nRuntimeError: CUDA out of memory{EVIL}\n" + log.read_text() + EVIL
            )
        for note in run.glob("failures/[!.]*"):
            note.write_text(note.read_text().rstrip("\n") + EVIL + "\n")
        for recording in run.glob("usage/*"):
            lines = [json.loads(line) for line in recording.read_text().splitlines()]
            for line in lines:
                for key in set(line) & {"node", "host", "missing"}:
                    line[key] = [EVIL] if isinstance(line[key], list) else f"n{EVIL}"
            recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
        state = json.loads((run / "state.json").read_text())
        (run / "state.json").write_text(json.dumps({**state, "host": f"n{EVIL}", "reason": f"killed{EVIL}"}))
    return job


@pytest.mark.slow
def test_what_a_jobs_files_hold_does_not_steer_the_terminal(on_terminal, poisoned):
    for words in (
        ["list"], ["status", "latest"], ["results"], ["results", "--csv"], ["results", "--json"], ["usage", "latest"],
        ["usage", "latest:1"], ["usage", "latest", "--csv"], ["usage", "latest", "--json"], ["top", "latest:1", "--once"],
        ["why"],
        ["why", "latest:1", "--json"], ["logs", "latest", "--rank", "all"], ["logs", "latest", "--merge"], ["logs", "latest:1"],
        ["logs", "latest", "--first-failure"], ["logs", "latest", "-f"], ["report", "latest", "-o", "page.html"],
        ["explain", "DLRUN_RANK", str(poisoned)], ["plan", str(poisoned)], ["cancel", "latest"], ["clean", "latest"],
        ["resubmit", "latest", "--failed", "--dry-run"], ["fetch", "latest"],
    ):  # fmt: skip
        drawn, _ = on_terminal(*words, width=200)
        own = r"\x1b\[(?:\?25[lh]|1A|2K)|\r"  # the status line's, as it comes and goes
        assert not STEERS.search(re.sub(own, "", STYLE.sub("", drawn))), (words, drawn)
        assert "this is a bug" not in drawn, (words, drawn)


@pytest.mark.slow
def test_what_ranks_report_to_verify_does_not_steer_the_terminal(on_terminal, tmp_path):
    (tmp_path / "spec.yaml").write_text(
        "name: v\ncommand: [x]\nsite: workstation\nresources: {ranks_per_node: 2, walltime: 5m}\nplacement: {threads: 1}\n"
        'environment: {variables: {OMP_NUM_THREADS: "7\\e[2J"}}\n'
    )
    drawn, _ = on_terminal("verify", "spec.yaml", width=200)
    assert "OMP_NUM_THREADS is" in drawn, drawn
    assert not STEERS.search(STYLE.sub("", drawn)), drawn


@pytest.mark.slow
def test_the_progress_of_a_copy_is_a_bar_that_is_gone_at_the_end(on_terminal, tmp_path):
    source = tmp_path / "set"
    source.mkdir()
    for number in range(8):
        (source / str(number)).write_bytes(os.urandom(1 << 20))
    drawn, modules = on_terminal("stage-data", str(source), "--to", str(tmp_path / "to"), "--rate", "4MB")
    assert "rich.progress" in modules
    assert re.search(r"━.*%.*MB", drawn), "the bar"
    lines = [line.strip() for line in STYLE.sub("", drawn).splitlines()]
    assert not [line for line in lines if re.match(r"set: [0-9]+ %", line)], (
        "no second report of the progress"
    )
    assert lines[-1].removeprefix("\x1b[1A\x1b[2K") == f"{tmp_path}/to/set/data"
    assert any("set: copied in" in line for line in lines)
    again, _ = on_terminal("stage-data", str(source), "--to", str(tmp_path / "to"))
    assert "━" not in again, "nothing is copied, so there is no bar"


@pytest.mark.slow
def test_the_data_sets_of_a_machine_are_a_drawn_table(on_terminal, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "file").write_bytes(b"x" * 2000)
    on_terminal("stage-data", str(tmp_path / "one"), "--to", str(tmp_path / "to"))
    drawn, modules = on_terminal("stage-data", "--list", "--to", str(tmp_path / "to"), width=60)
    assert "rich.table" in modules
    lines = STYLE.sub("", drawn).splitlines()
    assert re.match(r"DATA SET +SIZE +FILES +USE", lines[0])
    assert re.match(r"one +2 kB +1 +unused for \d+s", lines[1])
    assert lines[2] == "not shown at this width: SOURCE"
    empty, _ = on_terminal("stage-data", "--list", "--to", str(tmp_path))
    assert empty == ""


@pytest.mark.slow
def test_a_followed_job_has_a_status_line_below_its_log(on_terminal, tmp_path):
    (tmp_path / "spec.yaml").write_text(
        "name: slow\nsite: workstation\ncommand: [bash, -c, 'echo first; sleep 8; echo last']\n"
        "resources: {nodes: 1, ranks_per_node: 1, walltime: 5m}\n"
    )
    drawn, modules = on_terminal("submit", "spec.yaml", "--wait")
    lines = STYLE.sub("", drawn).splitlines()
    assert "rich.live" in modules
    assert [line for line in lines if re.search(r"job \S+: running on \S+ for [0-9]+s", line)], drawn
    assert "last" in STYLE.sub("", drawn)
    assert re.search(
        r"\x1b\[2K(last|dlrun: job \S+ ended with exit code 0)$", "\n".join(lines), re.MULTILINE
    ), (
        "the log's next part, whose first line is of the rank or of the job, begins where the status line was erased"
    )


def test_a_narrow_terminal_has_a_placement_without_its_minor_columns(on_terminal):
    asked = ("tune-affinity", "--site", "stampede2", "--node-type", "skx", "--framework", "intelcaffe")
    wide, modules = on_terminal(*asked, width=120)
    narrow, _ = on_terminal(*asked, width=45)
    assert "rich" in modules
    assert "comm" in STYLE.sub("", wide).splitlines()[2]
    assert "comm" not in STYLE.sub("", narrow).splitlines()[2]
    assert "not shown at this width: comm" in STYLE.sub("", narrow)
