"""Whatever stands on PATH, no test fails: programs that do not work as a test starts them are named as skipped."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.examples import cases

TESTS = Path(__file__).parent
OTHERS = ("aws", "moto_server", "rclone", "s5cmd", *(f"python3.{minor}" for minor in range(6, 15)))
"""Programs that tests name besides those of TRIALS."""
NAMES = sorted({name for trial in programs.TRIALS.values() for name in trial.names} | set(OTHERS))
HOSTILE = {
    "shim": '#!/usr/bin/env bash\n[[ -e $HOME/.manager ]] || { echo "manager: no version is set" >&2; exit 126; }\n',
    "no interpreter": "#!/no/such/interpreter\n",
    "broken": '#!/bin/sh\nexec /no/such/place/bin/"${0##*/}" "$@"\n',
    "another version": '#!/bin/sh\ncase $1 in --version | -V | version) echo "${0##*/} 0.1" ;; '
    '*) echo "${0##*/}: unknown option $1" >&2; exit 2 ;; esac\n',
    "silent": "#!/bin/sh\nexit 0\n",
    "hangs": "#!/bin/sh\nexec sleep 600\n",
    "leaves a process": "#!/bin/sh\nsetsid sleep 5 &\nexit 0\n",
    "endless": "#!/bin/sh\nexec yes works\n",
    "killed": "#!/bin/sh\nkill -SEGV $$\n",
    "another processor": "\x7fELF\x02\x01\x01" + "\0" * 9 + "\x02\0\x16\0\x01" + "\0" * 43,  # System/390
    "empty": "",
}
"""What a program on PATH may be."""
LASTING = ("hangs", "leaves a process")
"""Those whose output has no end within the time of a trial."""
BASE = {
    "awk", "bash", "cat", "chmod", "chown", "cp", "date", "dd", "echo", "env", "false", "find", "grep", "head", "hostname", "id",
    "kill", "ln", "ls", "mkdir", "mkfifo", "mv", "printf", "rm", "sed", "seq", "setsid", "sh", "sha256sum", "sleep", "sort",
    "stat", "tail", "tar", "taskset", "tee", "test", "timeout", "touch", "tr", "true", "truncate", "uname", "wc",
}  # fmt: skip
"""What every Linux has, and dlrun needs: Debian's essential packages. The `python` of a spec is its user's."""
TRIED_THERE = {"moto_server"}
"""A server must serve: its fixture tries that."""
MODULES = [p for p in sorted(TESTS.rglob("*.py")) if p.name not in ("programs.py", Path(__file__).name)]


def place_of(directory: Path, text: str, names=NAMES) -> Path:
    """A directory with a program of each name that is this text."""
    directory.mkdir()
    for name in names:
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("kind", cases(HOSTILE, quick=2))
def test_what_stands_first_on_path_fails_no_test(tmp_path, kind):
    """Those tests that need a program, with a program of each name that does not work first on PATH."""
    place = place_of(tmp_path / "first", HOSTILE[kind])
    users = [
        p
        for p in MODULES
        if "pytest.mark.needs(" in p.read_text() and p.relative_to(TESTS).parts[0] != "cluster"
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "needs and not slow",
         f"--basetemp={tmp_path / 'tests'}", *map(str, users)],
        cwd=TESTS.parent, capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": f"{place}:{os.environ['PATH']}", "DLRUN_TEST_TRIAL": "2" if kind in LASTING else "60"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert "strace` does not work here: " in done.stdout, "what does not work is named"


@pytest.mark.parametrize(
    ("name", "kind"), cases([(name, kind) for name in programs.TRIALS for kind in HOSTILE], quick=60)
)
def test_a_program_that_does_not_work_is_not_taken(tmp_path, monkeypatch, name, kind):
    place = place_of(tmp_path / "first", HOSTILE[kind], programs.TRIALS[name].names)
    monkeypatch.setattr(programs, "SECONDS", 0.2 if kind in LASTING else 60)
    program, why = programs.path_of(name, path=f"{place}:/usr/bin:/bin")
    assert not program
    assert why.startswith(f"`{place}/")


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_python_that_does_not_work_is_not_taken(tmp_path, monkeypatch, kind):
    minor = sys.version_info.minor
    place = place_of(tmp_path / "first", HOSTILE[kind], [f"python3.{minor}"])
    real = tmp_path / "second" / f"python3.{minor}"
    real.parent.mkdir()
    real.symlink_to(sys.executable)
    monkeypatch.setattr(programs, "SECONDS", 5 if kind in LASTING else 60)
    monkeypatch.setenv("PATH", f"{place}:{real.parent}:/usr/bin:/bin")
    assert programs.python(minor) == str(real)


def named(tree: ast.AST) -> set[str]:
    """The programs that a module starts or looks for: first words of command lines, and `which`."""
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = ast.unparse(node.func)
        first = node.args[0]
        if called.startswith("subprocess.") and isinstance(first, (ast.List, ast.Tuple)) and first.elts:
            first = first.elts[0]
        elif called not in ("shutil.which", "which"):
            continue
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            found.add(first.value)
    return found


def test_each_program_that_a_test_names_is_tried_first():
    """One that not every machine has is in TRIALS, and the module that names it tries it."""
    wrong = []
    for path in MODULES:
        if path.relative_to(TESTS).parts[0] in ("cluster", "campaigns", "oracles"):
            continue  # they install what they need, and run in namespaces and machines of their own
        text = path.read_text("utf-8")
        for name in sorted(named(ast.parse(text)) - BASE - TRIED_THERE):
            tried = re.search(rf'(?:needs|need|works|path_of)\([^)]*"{re.escape(name)}"', text)
            if "/" not in name and not tried:
                wrong.append(f"{path.relative_to(TESTS)}: {name}")
    assert wrong == []


def test_a_program_that_a_signal_ended_once_works(tmp_path):
    once = tmp_path / "once"
    once.write_text('#!/bin/sh\n[ -e "$0.run" ] || { : >"$0.run"; kill -PIPE $$; }\necho works\n')
    once.chmod(0o755)
    assert programs.fault([once]) == ""
    always = tmp_path / "always"
    always.write_text("#!/bin/sh\nkill -PIPE $$\n")
    always.chmod(0o755)
    assert "exit code -13" in programs.fault([always])
