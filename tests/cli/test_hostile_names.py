"""Names that the library, bash or the pages use, in a user's hands: as variables, in set-up lines, as functions, as traps.

Each way is a real job with all names at once, which ends well, and one which fails; with `-m slow` also jobs for few variables,
and for each trap and each name in set-up lines, with all ways of such lines at once.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from dlrun.plan.reserved_names import reserved
from tests.examples import cases
from tests.library import LIBRARY, PARTS, RANKS, local_names
from tests.making import LOCAL, plan_of, write_job

OF_USERS = [
    "steps",
    "started",
    "finish",
    "run_dir",
    "status",
    "role",
    "count",
    "command",
    "main",
    "host",
    "user",
    "port",
    "ports",
    "memory",
    "cpus",
    "fault",
    "end",
    "early",
    "sweep",
    "fail",
    "say",
    "record",
    "grace",
    "asked",
    "child",
    "killed",
    "ending",
    "told",
    "watcher",
    "launched",
    "failing",
    "first",
    "mark",
    "planned",
    "wanted",
]
"""Names of scripts before there was a library, and of everyday set-up lines."""


def of_bash() -> set[str]:
    """Every variable that a bash on this machine sets or heeds."""
    printed = subprocess.run(
        ["env", "-i", "bash", "-c", "compgen -v"], capture_output=True, text=True, check=True
    ).stdout
    heeded = "IFS ENV BASH_ENV POSIXLY_CORRECT GLOBIGNORE TMOUT FUNCNEST CDPATH REPLY OPTARG MAPFILE COLUMNS LC_ALL PS3 PS4"
    return {
        *printed.split(),
        *heeded.split(),
        "UID",
        "RANDOM",
        "SECONDS",
        "SRANDOM",
        "LINENO",
        "FUNCNAME",
        "COPROC",
    }


def of_the_library() -> set[str]:
    """Every word of the library and of a page that could be the name of a variable or function, but for the prefixed ones."""
    page = (Path(__file__).parents[1] / "golden/slurm-srun-checked/job.sh").read_text()
    text = "\n".join([page, *(path.read_text() for path in PARTS.values())])
    commands = set(
        re.findall(r"(?:^|[;|&(]|then|do|else|\$\()\s*([a-z][a-z0-9_]+)(?=[\s;)])", text, re.MULTILINE)
    )
    variables = set(re.findall(r"\$\{?([A-Za-z_]\w*)", text))
    return {
        name
        for name in commands | variables | local_names()
        if not name.lower().startswith(("dlrun", "_dlrun"))
    }


KEYWORDS = {"if", "then", "else", "elif", "fi", "for", "do", "done", "case", "esac", "in", "while", "until", "select", "time",
            "function", "coproc"}  # fmt: skip
NEEDED = {"PATH", "HOME", "DLRUN"}
"""What programs are found by: another value is another job."""
READ_ONLY = {"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"}
NAMES = sorted((of_bash() | of_the_library() | set(OF_USERS)) - NEEDED)
VARIABLES = [name for name in NAMES if re.fullmatch(r"[A-Za-z_]\w*", name)]
FUNCTIONS = [
    name
    for name in [*NAMES, ".", ":", "[", "builtin", "unset", "trap", "exit", "kill"]
    if name not in KEYWORDS
]
SIGNALS = [
    "EXIT",
    "DEBUG",
    "ERR",
    "RETURN",
    "HUP",
    "INT",
    "TERM",
    "USR1",
    "USR2",
    "PIPE",
    "CHLD",
    "ALRM",
    "CONT",
]
SHOW = "printf '\\0'; env -0; exit $1\n"
"""A program that shows its environment."""
HOSTILE = "x[0] 11270"
"""Two words, one of them a pattern; were it a process id, an array or arithmetic, it would show."""


def environment_of(way: str, names: list[str]) -> str:
    """The `environment:` of a spec that uses the names in this way."""
    if way == "variable":
        return json.dumps({"variables": dict.fromkeys(names, HOSTILE)})
    return json.dumps({"setup": lines_of(way, names)})


def lines_of(way: str, names: list[str]) -> list[str]:
    """The lines of `environment.setup` that use the names in this way."""
    return {
        "setup": [f"{name}='{HOSTILE}'" for name in names],
        "function": [f"{name}() {{ printf 'HOSTILE {name}\\n' >&2; return 9; }}" for name in names],
        "alias": [
            "shopt -s expand_aliases",
            *(f"alias {name}='printf HOSTILE-{name} >&2; false'" for name in names),
        ],
        "trap": [f"trap 'printf \"HOSTILE {name}\\n\" >&2' {name}" for name in names],
    }[way]


WAYS = {
    "variable": [name for name in VARIABLES if reserved(name) is None],
    "setup": [name for name in VARIABLES if name not in READ_ONLY],
    "function": FUNCTIONS,
    "alias": [name for name in FUNCTIONS if name not in ("alias", "dlrun_own_shell")],
    "trap": SIGNALS,
}


def check(way: str, names: list[str], code: int, job: Path, printed: str) -> None:
    """Exit code, state, logs and the program's own view of the variables are right."""
    log = (job / "logs" / "rank-0.log").read_bytes().decode()
    state = json.loads((job / "state.json").read_text())
    assert (state["state"], state["exit_code"], state["reason"]) == ("ended", code, None), printed
    assert f"ended with exit code {code}" in printed
    assert ("first failure: rank 0 on " in printed) == (code != 0)
    assert not list((job / "failures").glob("[!.]*")) or code
    # Errors of ld.so stand before the first variable, whichever that is.
    seen = {
        line.partition("=")[0].rpartition("\n")[2]: line.partition("=")[2]
        for line in log.split("\0")
        if "=" in line
    }
    assert seen["DLRUN_RANK"] == "0"
    assert seen["DLRUN_RUN_DIR"] == str(job)
    if way == "variable":
        assert {name: seen.get(name) for name in names} == dict.fromkeys(names, HOSTILE)
    if way in ("setup", "function", "alias"):
        assert "HOSTILE" not in log
    assert not any(name.startswith(("_dlrun_", "dlrun_")) for name in seen)


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("way", WAYS)
def test_a_job_with_all_names_at_once(dlrun, way, code):
    names = WAYS[way]
    assert way == "trap" or len(names) >= 200 or way == "variable"
    (dlrun.place / "show.sh").write_text(SHOW)
    spec = f"command: [bash, {dlrun.place}/show.sh, {code}]\nresources: {{ranks_per_node: 1}}\nenvironment: "
    ran = dlrun("submit", dlrun.spec(spec + environment_of(way, names)), "--wait", code=code)
    job = Path(ran.stdout.split("job directory: ")[1].splitlines()[0])
    check(way, names, code, job, (job / "logs" / "job.log").read_text())
    assert not dlrun.alive()


@pytest.mark.parametrize("name", cases(sorted(READ_ONLY), quick=2))
def test_a_set_up_line_that_bash_refuses_ends_the_job_and_says_so(dlrun, name):
    spec = f"command: ['true']\nenvironment: {{setup: ['{name}=7']}}\n"
    job = dlrun.submit(spec, "--wait", code=1)
    assert json.loads((job / "state.json").read_text())["exit_code"] == 1
    assert f"{name}: readonly variable" in (job / "logs" / "job.log").read_text()


def of_the_library_itself() -> list[str]:
    """Every function of the library's parts that share their shell with set-up lines."""
    text = "\n".join(path.read_text() for name, path in PARTS.items() if name not in RANKS)
    return sorted(set(re.findall(r"^(_?dlrun_\w+)\(\) \{", text, re.MULTILINE)))


@pytest.mark.slow
def test_a_function_of_the_library_cannot_be_defined_again(dlrun):
    """Where set-up lines go on after the error, the job ends well; else it ends with the name."""
    names = of_the_library_itself()
    assert {"dlrun_wait", "_dlrun_finish", "_dlrun_tree"} <= set(names)
    used = ("processes", "failures", "shell", "job", "ports", "local", "start")
    loaded = [name for name in names if any(f"\n{name}() {{" in PARTS[part].read_text() for part in used)]
    lines = [
        "set +e",
        *(f"{name}() {{ echo HOSTILE; exit 9; }}" for name in loaded),
        *(f"unset -f {name}" for name in loaded),
    ]
    job = dlrun.submit(f"command: [echo, fine]\nenvironment: {json.dumps({'setup': lines})}\n", "--wait")
    printed = (job / "logs" / "job.log").read_text()
    assert "HOSTILE" not in printed
    assert all(f": {name}: readonly function" in printed for name in loaded)
    assert "fine" in (job / "logs" / "rank-0.log").read_text()
    spec = "command: ['true']\nenvironment: {setup: ['dlrun_wait() { true; }']}\n"
    refused = dlrun.submit(spec, "--wait", code=1)  # bash 4.2 goes on, without it
    assert "dlrun_wait: readonly function" in (refused / "logs" / "job.log").read_text()
    assert "defines or removes the function `dlrun_wait`" in dlrun("why", refused).stdout


@pytest.mark.slow
@pytest.mark.parametrize("line", ["exit", "exit 0", "exec true"])
def test_a_set_up_line_that_ends_the_script_is_no_success(dlrun, line):
    job = dlrun.submit(f"command: ['true']\nenvironment: {{setup: ['{line}']}}\n", "--wait", code=1)
    assert not (job / "logs" / "rank-0.log").exists()
    if line.startswith("exit"):
        assert "a line of job.sh ended it before the ranks did" in (job / "logs" / "job.log").read_text()
        assert "environment.setup" in dlrun("why", job).stdout


@pytest.mark.parametrize("name", ["status", "host"])
def test_a_read_only_variable_with_a_name_of_the_library_is_reported(dlrun, name):
    job = dlrun.submit(
        f"command: ['true']\nenvironment: {{setup: ['readonly {name}=7']}}\n", "--wait", code=1
    )
    assert f"has made the variable '{name}' read-only" in (job / "logs" / "job.log").read_text()


def test_the_library_knows_its_own_local_names():
    listed = re.search(r"^_dlrun_locals='([^']*)'", (LIBRARY / "shell.sh").read_text(), re.MULTILINE)[1]
    assert set(listed.split()) == local_names()


def test_names_that_belong_to_bash_or_dlrun_are_refused(dlrun):
    names = [name for name in (*VARIABLES, "DLRUN_X", "dlrun_log", "_dlrun_steps") if reserved(name)]
    variables = ", ".join(f"{name}: x" for name in names)
    ran = dlrun(
        "plan", dlrun.spec(f"command: ['true']\nenvironment: {{variables: {{{variables}}}}}\n"), code=2
    )
    assert ran.stderr.count("DLR098") == len(names)
    assert [name for name in names if f"`{name}` cannot be set: " not in ran.stderr] == []


def runs_well(place: Path, way: str, names: list[str], environment: str) -> None:
    """A job with this environment ends as its program does: every second one with a failure."""
    code = 3 * (int(place.name) % 2)
    place.mkdir()
    (place / "show.sh").write_text(SHOW)
    spec = f"command: [bash, {place}/show.sh, {code}]\nresources: {{ranks_per_node: 1}}\nplacement: {{bind: none}}\n"
    plan = plan_of(place, f"{spec}environment: {environment}", LOCAL, directory=str(place))
    write_job(plan, place)
    done = subprocess.run(
        ["bash", "job.sh"], cwd=place, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, (names, done.stdout, done.stderr)
    check(way, names, code, place, done.stdout)


@pytest.mark.slow
def test_a_job_for_each_trap(tmp_path):
    for number, name in enumerate(SIGNALS):
        runs_well(tmp_path / str(number), "trap", [name], environment_of("trap", [name]))


@pytest.mark.slow
@pytest.mark.parametrize("part", cases(range(2), quick=0))
def test_jobs_for_few_variables(tmp_path, part):
    """Each variable is in two jobs, with other ones each time: what one of them does is not hidden by all the rest."""
    names = WAYS["variable"]
    count = -(-len(names) // 8)
    for number in range(count):
        few = names[number * 8 :][:8] if part else names[number::count]
        runs_well(tmp_path / str(number), "variable", few, environment_of("variable", few))


@pytest.mark.slow
@pytest.mark.parametrize("part", cases(range(4), quick=0))
def test_a_job_for_each_name_in_set_up_lines(tmp_path, part):
    """As a variable, a function and an alias at once, as far as bash allows each."""
    ways = ("setup", "function", "alias")
    names = sorted({name for way in ways for name in WAYS[way]})[part::4]
    assert len(names) >= 50
    for number, name in enumerate(names):
        lines = [line for way in ways if name in WAYS[way] for line in lines_of(way, [name])]
        lines.sort(key="shopt -s expand_aliases".__ne__)  # before `shopt` is a function
        runs_well(tmp_path / str(number), "setup", [name], json.dumps({"setup": lines}))
