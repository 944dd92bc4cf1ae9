"""Which Python runs dlrun's own programs on a node, and what is said of a node without one."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from dlrun.node import bundle
from dlrun.resources import directory

LIBRARY = directory("templates") / "lib" / "python.sh"
OLD = '#!/bin/sh\n[ "$1" = --version ] && echo "Python 2.7.18" >&2 && exit 0\necho "Unknown option: -I" >&2\nexit 2\n'
NEEDS_OWN_LIBRARIES = f'#!/bin/sh\n[ -z "$LD_LIBRARY_PATH" ] || exit 127\nexec {sys.executable} "$@"\n'


def chosen(
    tmp_path: Path, script: str, program: str = "print('ran')", **more: str
) -> subprocess.CompletedProcess:
    python = tmp_path / "python"
    python.write_text(script)
    python.chmod(0o755)
    (tmp_path / "program.py").write_text(program)
    return subprocess.run(
        ["bash", LIBRARY, tmp_path / "program.py"], capture_output=True, text=True, check=False,
        env=dict(os.environ, DLRUN_NODE_PYTHON=str(python), **more),
    )  # fmt: skip


def test_an_old_python_is_named_with_the_way_out(tmp_path):
    ran = chosen(tmp_path, OLD)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout == (
        "dlrun: this node has no Python for dlrun's own programs, which need 3.6 or later "
        f"({tmp_path}/python is Python 2.7.18): name one with `python` in the site profile\n"
    )


def test_no_variable_or_module_of_the_training_reaches_it(tmp_path):
    (tmp_path / "json.py").write_text("raise AttributeError\n")
    for name, value in (("PYTHONPATH", str(tmp_path)), ("PYTHONHOME", "/none")):
        ran = chosen(
            tmp_path, f'#!/bin/sh\nexec {sys.executable} "$@"\n', "import json; print('ran')", **{name: value}
        )
        assert (ran.returncode, ran.stdout) == (0, "ran\n"), ran.stderr


def test_libraries_of_modules_that_do_not_suit_it_are_left_out(tmp_path):
    ran = chosen(tmp_path, NEEDS_OWN_LIBRARIES, LD_LIBRARY_PATH="/opt/cuda/lib")
    assert (ran.returncode, ran.stdout) == (0, "ran\n"), ran.stderr


@pytest.mark.parametrize(("changed", "checks"), [("", 1), ("LD_LIBRARY_PATH=/opt/cuda/lib", 2)])
def test_what_a_script_above_has_checked_is_not_checked_again(tmp_path, changed, checks):
    """A point of a sweep would start Python once more; with other libraries it may not run, so there it is checked."""
    script = f'#!/bin/sh\ncase "$*" in *importlib.util*) echo >>"{tmp_path}/checks" ;; esac\nexec {sys.executable} "$@"\n'
    again = f"import subprocess; subprocess.call(['env', *{changed.split()!r}, 'bash', {str(LIBRARY)!r}, '/dev/null'])"
    assert chosen(tmp_path, script, again).returncode == 0
    assert len((tmp_path / "checks").read_text().splitlines()) == checks


@pytest.mark.parametrize("part", ["node.pyz", "usage.py"])
def test_the_programs_themselves_say_so_too(tmp_path, part):
    """Read by a Python that takes no annotation and no f-string: the check is reached, whatever follows."""
    old = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv" / "versions" / "2.7.18" / "bin" / "python2.7"
    if not os.access(old, os.X_OK):
        pytest.skip("there is no Python 2.7 here")
    if part == "node.pyz":
        bundle.write(str(tmp_path / part))
    else:
        (tmp_path / part).write_bytes(bundle.single_file(bundle.sources(bundle.SAMPLER), "dlrun_usage"))
    ran = subprocess.run([old, tmp_path / part], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"error: {part} needs Python 3.6 or later, and this is 2.7.18 (")
    assert ran.stderr.count("\n") == 1
