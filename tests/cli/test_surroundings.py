"""Jobs in the surroundings that users and clusters bring: data is staged, the training runs, results come back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun
from tests.examples import cases

SPEC = """\
name: run
command: [sh, -c, 'cat "$DLRUN_DATA_SET/part" >"$DLRUN_RESULTS/part-$RANK"; pwd >"$DLRUN_RESULTS/pwd-$RANK"']
resources: {ranks_per_node: 2, walltime: 10m}
data: {set: {source: source, strategy: copy}}
results: {to: results, before_end: 1m}
site: ./site.yaml
"""
SITE = """\
extends: workstation
name: here
storage: {node_local: {path: "%s"}}
"""
FUNCTIONS = ("rm", "mv", "mkdir", "cat", "sleep", "grep", "date", "stat", "python3", "bash", "env", "head", "id", "touch",
             "kill", "wait", "printf", "echo", "read", "test", "cd", "trap", "exit", "export", "set", "unset", "source",
             "local", "declare", "command", "builtin", "type", "compgen", "shopt", "readonly", "eval", "mapfile")  # fmt: skip
SHADOWS = ("json", "socket", "os", "re", "asyncio", "typing", "threading", "sitecustomize", "usercustomize")


def function(name: str) -> Callable[[Path], Mapping[str, str]]:
    return lambda place: {f"BASH_FUNC_{name}%%": "() {  echo hijacked >&2; return 7\n}"}


def shadow(name: str) -> Callable[[Path], Mapping[str, str]]:
    def make(place: Path) -> Mapping[str, str]:
        (place / "shadow").mkdir()
        (place / "shadow" / f"{name}.py").write_text("raise AttributeError('a module of the user')\n")
        return {"PYTHONPATH": str(place / "shadow")}

    return make


def bash_env(line: str) -> Callable[[Path], Mapping[str, str]]:
    def make(place: Path) -> Mapping[str, str]:
        (place / "bash_env").write_text(f"{line}\n")
        return {"BASH_ENV": str(place / "bash_env")}

    return make


def first_on_path(name: str, script: str) -> Callable[[Path], Mapping[str, str]]:
    def make(place: Path) -> Mapping[str, str]:
        (place / "bin").mkdir()
        (place / "bin" / name).write_text(script)
        (place / "bin" / name).chmod(0o755)
        return {"PATH": f"{place / 'bin'}:{os.environ['PATH']}"}

    return make


def variables(**names: str) -> Callable[[Path], Mapping[str, str]]:
    return lambda place: {name: value.replace("{place}", str(place)) for name, value in names.items()}


SURROUNDINGS: dict[str, Callable[[Path], Mapping[str, str]]] = {
    **{f"function {name}": function(name) for name in FUNCTIONS},
    **{f"module {name} on PYTHONPATH": shadow(name) for name in SHADOWS},
    "PYTHONHOME of a module": variables(PYTHONHOME="/opt/none"),
    "PYTHONSTARTUP and others": variables(
        PYTHONSTARTUP="/none", PYTHONINSPECT="1", PYTHONOPTIMIZE="2", PYTHONWARNINGS="error"
    ),
    "PYTHONIOENCODING": variables(PYTHONIOENCODING="ascii", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"),
    "python3 of 2.7": first_on_path("python3", '#!/bin/sh\necho "Unknown option: -I" >&2; exit 2\n'),
    "python3 that hangs at no terminal": first_on_path("python3", "#!/bin/sh\nexit 0\n"),
    "LD_LIBRARY_PATH": variables(LD_LIBRARY_PATH="/none:/usr/none"),
    "BASH_ENV that goes elsewhere": bash_env("cd /tmp"),
    "BASH_ENV that prints": bash_env("echo welcome"),
    "BASH_ENV with set -e": bash_env("set -e"),
    "BASH_ENV that is not there": variables(BASH_ENV="/none"),
    "LC_ALL=C": variables(LC_ALL="C", LANG="C"),
    "a locale that is not there": variables(LC_ALL="xx_YY.UTF-8"),
    "POSIXLY_CORRECT": variables(POSIXLY_CORRECT="1"),
    "CDPATH": variables(CDPATH="/:/tmp"),
    "SHELLOPTS": variables(SHELLOPTS="braceexpand:hashall:interactive-comments:noclobber"),
    "GLOBIGNORE": variables(GLOBIGNORE="*"),
    "GREP_OPTIONS and GREP_COLORS": variables(GREP_OPTIONS="--color=always", GREP_COLOR="1;32"),
    "TMPDIR that is not there": variables(TMPDIR="/none"),
    "HOSTNAME, USER and HOME of elsewhere": variables(HOSTNAME="login1", USER="somebody", LOGNAME="somebody"),
    "IFS and PS4": variables(IFS="/", PS4="$(exit 1)"),
    "TZ": variables(TZ="Pacific/Kiritimati"),
    "EDITOR, PAGER, TERM": variables(TERM="none", PAGER="false", EDITOR="false"),
}


@pytest.fixture
def submit(dlrun: Dlrun) -> Callable[[Mapping[str, str]], Path]:
    (dlrun.place / "source").mkdir()
    (dlrun.place / "source" / "part").write_text("data\n")
    (dlrun.place / "local").mkdir()
    (dlrun.place / "site.yaml").write_text(SITE % (dlrun.place / "local"))

    def run(more: Mapping[str, str], spec: str = SPEC, **options) -> Path:
        (dlrun.place / "spec.yaml").write_text(spec)
        ran = dlrun("submit", "spec.yaml", "--wait", env=dict(more), code=None, **options)
        job = Path(ran.stdout.split("job directory: ")[1].splitlines()[0])
        assert ran.code == 0, ran.stdout + ran.stderr + "".join(p.read_text() for p in job.glob("logs/*.log"))
        return job

    return run


def test_there_are_sixty():
    assert len(SURROUNDINGS) >= 60


@pytest.mark.parametrize("name", cases(SURROUNDINGS, quick=3))
def test_a_job_runs_as_elsewhere(dlrun, submit, name):
    submit(SURROUNDINGS[name](dlrun.place))
    for rank in (0, 1):
        assert (dlrun.place / "results" / f"part-{rank}").read_text() == "data\n"
        assert (dlrun.place / "results" / f"pwd-{rank}").read_text() == f"{dlrun.place}\n"
    assert list((dlrun.place / "local").glob("*/.results*")) == []


@pytest.mark.slow
@pytest.mark.parametrize("umask", cases([0o777, 0o477, 0o022], quick=1))
def test_files_of_a_job_are_its_users_whatever_the_umask_is(dlrun, submit, umask):
    job = submit({}, umask=umask)
    for path in (job, *job.rglob("*")):
        assert path.stat().st_mode & (0o700 if path.is_dir() else 0o600) >= 0o400, path
        assert not path.stat().st_mode & 0o022, path


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", cases(["set +h", "set +h -x", "umask 0777", "POSIXLY_CORRECT=1; set +h"], quick=2)
)
def test_shell_options_of_a_setup_line_are_not_the_librarys(dlrun, submit, line):
    job = submit({}, spec=f"{SPEC}environment: {{setup: ['{line}']}}\n")
    assert "hashing disabled" not in (job / "logs" / "job.log").read_text()
    assert (dlrun.place / "results" / "part-1").read_text() == "data\n"


@pytest.mark.slow
@pytest.mark.parametrize("most", cases([9, 11, 14, 20], quick=1))
def test_a_low_limit_of_open_files_is_named(dlrun, submit, most):
    (dlrun.place / "spec.yaml").write_text(f"{SPEC}environment: {{setup: [ulimit -n {most}]}}\n")
    ran = dlrun("submit", "spec.yaml", "--wait", code=None)
    if ran.code:
        assert "why:   the limit of open files was reached" in ran.stderr, ran.stdout + ran.stderr
        assert "next:  `environment.setup: [ulimit -n 65536]`" in ran.stderr
