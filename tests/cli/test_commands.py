"""Every command's manners: streams, exit codes, help, JSON, colour."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dlrun import __version__
from dlrun.cli.forms import FORMER
from dlrun.cli.main import COMMANDS, GROUPS, group

SPEC = "command: [./train, '{{ world_size }}']\nresources: {ranks_per_node: 2, walltime: 1h}\n"
FAULTY = "command: [./train]\nresources:\n  nodess: 2\n  walltime: 30\n"


def test_version_and_help(dlrun):
    assert dlrun("--version").stdout == f"dlrun {__version__}\n"
    text = dlrun("--help").stdout
    listed = re.findall(r"^  ([a-z][a-z-]*)  +[A-Z]", text, re.MULTILINE)
    assert listed == [name for rows in GROUPS.values() for name in rows]
    assert len(listed) <= 24
    assert {*listed, *FORMER} == {*COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_line_of_help_and_an_example(name):
    command = group.get_command(click.Context(group), name)
    assert command.help
    leaves = command.commands.values() if isinstance(command, click.Group) else [command]
    for leaf in leaves:
        title, *lines = leaf.epilog.removeprefix("\b\n").splitlines()
        assert title == ("Examples:" if len(lines) > 1 else "Example:")
        assert all(re.match(r"  \S.*", line) and "dlrun" in line and len(line) <= 78 for line in lines)
        assert leaf.help.rstrip().endswith(".")
        assert all(p.help for p in leaf.params if isinstance(p, click.Option))


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("submti", "a command with a similar name exists: `submit`"),
        ("frobnicate", "`dlrun --help` lists the commands"),
    ],
)
def test_an_unknown_command_names_the_nearest(dlrun, word, hint):
    ran = dlrun(word, code=2)
    assert ran.stdout == ""
    assert ran.stderr == f"error: no such command: `{word}`\n   = help: {hint}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["submit"], "missing argument `SPEC`"),
        (
            ["submit", "--frob", "x"],
            "no such option `--frob`\n   = help: `dlrun submit --help` shows the options",
        ),
        (
            ["submit", "--sit", "x"],
            "no such option `--sit`\n   = help: the nearest is `--site`; `dlrun submit --help`",
        ),
        (["logs", "x", "--color", "never"], "no such option"),
        (["--color", "purple", "list"], "invalid value for `--color`"),
        (["list", "--limit", "0"], "0 is not in the range"),
        (["help", "me"], "no such command: `me`"),
        (["explain", "DLR999"], "there is no problem code `DLR999`"),
        (["explain", "resources.nodes"], "`resources.nodes` needs a spec or a job"),
        (["status", "nothing"], "no job `nothing`"),
        (["logs", "latest"], "no job `latest`"),
        (["cancel", "latest"], "no job `latest`"),
        (["plan", "spec.yaml", "-o", "plan.txt"], "does not end in .json"),
    ],
)
def test_usage_errors(dlrun, arguments, says):
    ran = dlrun(*arguments, code=2)
    assert ran.stdout == ""
    assert ran.stderr.startswith("error: ")
    assert says in ran.stderr
    assert len(ran.stderr.splitlines()) <= 2


def test_topics_of_help(dlrun):
    assert "130  interrupted" in dlrun("help", "exit-codes").stdout
    assert "DLRUN_JOBS" in dlrun("help", "environment").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(dlrun, shell):
    script = dlrun("completion", shell).stdout
    assert "_DLRUN_COMPLETE" in script
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_completion_offers_commands(dlrun):
    env = {"_DLRUN_COMPLETE": "bash_complete", "COMP_WORDS": "dlrun re", "COMP_CWORD": "1"}
    assert dlrun("re", env=env).stdout.splitlines() == [
        "plain,resubmit",
        "plain,results",
    ]  # not `render`, a former name


@pytest.mark.parametrize(
    ("flag", "env", "stream", "coloured"),
    [
        ([], {}, "pipe", False),
        ([], {"FORCE_COLOR": "1"}, "pipe", True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, "pipe", False),
        (["--color", "always"], {"NO_COLOR": "1"}, "pipe", True),
        (["--color=never"], {"FORCE_COLOR": "1"}, "pipe", False),
        ([], {"TERM": "xterm"}, "terminal", True),
        ([], {"TERM": "dumb"}, "terminal", False),
        ([], {"TERM": "xterm", "NO_COLOR": "1"}, "terminal", False),
    ],
)
def test_colour(dlrun, flag, env, stream, coloured):
    for arguments in (["plan", dlrun.spec(FAULTY)], ["submti"]):
        if stream == "pipe":
            text = dlrun(*flag, *arguments, code=2, env=env).stderr
        else:
            text = on_a_terminal(dlrun, [*flag, *arguments], env)
        assert ("\x1b[" in text) is coloured
        assert "error" in text


def on_a_terminal(dlrun, arguments, env) -> str:
    leader, follower = pty.openpty()
    with dlrun.start(*arguments, env=env, stdout=follower, stderr=follower) as process:
        os.close(follower)
        text = b""
        try:
            while chunk := os.read(leader, 4096):
                text += chunk
        except OSError:  # the other end is closed
            pass
        os.close(leader)
    assert process.returncode == 2
    return text.decode()


@pytest.mark.parametrize("form", ["text", "concise", "json"])
def test_forms_of_errors(dlrun, form):
    ran = dlrun("--error-format", form, "plan", dlrun.spec(FAULTY), code=2)
    assert ran.stdout == ""
    lines = ran.stderr.splitlines()
    if form == "json":
        found = [json.loads(line) for line in lines]
        assert [(p["severity"], p["line"], p["column"]) for p in found] == [("error", 4, 3), ("error", 5, 13)]
        assert "nodess" in found[0]["message"]
    elif form == "concise":
        assert [line.split(": ")[0] for line in lines] == ["spec.yaml:4:3", "spec.yaml:5:13"]
    else:
        assert "  --> spec.yaml:4:3" in lines
        assert "   |   ^^^^^^" in lines
        assert lines[-1] == "error: 2 problems"


@pytest.mark.parametrize(
    "arguments",
    [
        ["render", "spec.yaml"],
        ["submit", "spec.yaml", "--dry-run"],
        ["plan", "spec.yaml", "--json"],
        ["schema", "spec"],
    ],
)
def test_a_reader_that_goes_away_is_no_error(dlrun, arguments):
    dlrun.spec(SPEC)
    reader, writer = os.pipe()
    os.close(reader)
    with dlrun.start(*arguments, stdout=writer) as process:
        os.close(writer)
        stderr = process.communicate(timeout=120)[1]
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert "Broken" not in stderr


def test_json_is_alone_on_stdout_and_has_a_version(dlrun):
    spec = dlrun.spec(SPEC + "batch_per_rank: 10000\n")
    job = dlrun("submit", spec, "--json")
    told = json.loads(job.stdout)["job"]
    assert json.loads(job.stdout)["version"] == 1
    assert told["name"] == "run"
    assert "DLR030" in job.stderr
    answers = {
        "plan": dlrun("plan", spec, "--json"),
        "files": dlrun("render", spec, "--json"),
        "dry run": dlrun("submit", spec, "--dry-run", "--json"),
        "jobs": dlrun("list", "--json"),
        "status": dlrun("status", "latest", "--json"),
        "explanations": dlrun("explain", "OMP_NUM_THREADS", spec, "--json"),
        "code": dlrun("explain", "DLR030", "--json"),
        "sites": dlrun("site", "list", "--json"),
        "site": dlrun("site", "show", "workstation", "--json"),
        "checks": dlrun("site", "check", "workstation", "--json"),
    }
    for name, answer in answers.items():
        assert json.loads(answer.stdout)["version"] == 1, name
    assert json.loads(answers["jobs"].stdout)["jobs"][0]["directory"] == told["directory"]
    assert set(json.loads(answers["files"].stdout)["files"]) == {"job.sh", "rank.sh"}
    dlrun("logs", "-f", "latest")


def test_parsable_prints_the_id_alone(dlrun):
    ran = dlrun("submit", dlrun.spec("command: ['true']"), "--parsable", "--wait")
    assert re.fullmatch(r"\d+\.\d+\n", ran.stdout)
    assert dlrun("status", ran.stdout.strip()).stdout.count("completed") == 1


def test_an_unexpected_error_is_called_a_bug_and_logged(dlrun):
    broken = (
        "import dlrun.jobs.submission.prepare as p; p.prepare = lambda *a, **k: 1 / 0; "
        "from dlrun.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", broken, "plan", "x.yaml"], cwd=dlrun.place, env=dlrun.environment(),
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 3
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first == "error: this is a bug in dlrun: ZeroDivisionError: division by zero"
    log = second.removeprefix("   = help: please report it with the log: ")
    text = Path(log).read_text()
    assert __version__ in text
    assert "ZeroDivisionError" in text
    assert Path(log).stat().st_mode & 0o777 == 0o600


def test_an_interrupt_is_130(dlrun):
    words = ("--wait", "--job-dir", dlrun.jobs / "run 1")
    with dlrun.start("submit", dlrun.spec("command: [sleep, '600']"), *words) as process:
        while "each rank's output" not in (line := process.stdout.readline()):  # it follows the log
            assert line, process.communicate()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert (
        "the job is not cancelled; `dlrun logs -f 'run 1'` follows it, `dlrun cancel 'run 1'` ends it"
        in stderr
    )
    assert dlrun.alive()
    dlrun("cancel", "latest")


def test_import_writes_a_spec_that_plans(dlrun, tmp_path):
    script = tmp_path / "train.sbatch"
    script.write_text(
        "#!/bin/bash\n#SBATCH -N 2 -t 60 -p gpu\nset -e\nsrun torchrun --nproc_per_node 4 train.py\n", "utf-8"
    )
    (tmp_path / "train.py").touch()
    spec = tmp_path / "train.yaml"
    done = dlrun("import", str(script), "--site", "generic-slurm", "-o", str(spec))
    assert done.stdout == ""
    assert "line 4: torchrun: kept as the program of each node" in done.stderr
    assert re.search(r"^  nodes +2$", dlrun("plan", str(spec)).stdout, re.MULTILINE)
    again = dlrun("import", str(script), "-o", str(spec), code=2)
    assert "already exists" in again.stderr
    empty = tmp_path / "empty.sh"
    empty.write_text("#!/bin/bash\necho hello\n", "utf-8")
    assert "no line of it starts a program" in dlrun("import", str(empty), code=5).stderr


def test_keys_lists_what_may_be_written(dlrun):
    top = dlrun("keys").stdout
    assert re.search(r"^resources … +a mapping +resources to request", top, re.MULTILINE)
    assert not re.search("^options ", top, re.MULTILINE)
    assert re.search(r"^walltime +a time with its unit +\S", dlrun("keys", "resources").stdout, re.MULTILINE)
    assert re.search(r"^source +text +required +", dlrun("keys", "data.imagenet").stdout, re.MULTILINE)
    assert re.search(r"^agent +`true` or `false` +false +", dlrun("keys", "torch").stdout, re.MULTILINE)
    assert re.search(r"^max_nodes +a whole", dlrun("keys", "--profile", "partitions").stdout, re.MULTILINE)
    (row,) = json.loads(dlrun("keys", "resources.nodes", "--json").stdout)["keys"]
    assert row == {
        "key": "nodes",
        "value": "a whole number from 1 up",
        "default": "1",
        "meaning": "number of nodes",
    }
    assert "the nearest is `resources.nodes`" in dlrun("keys", "resources.node", code=2).stderr
