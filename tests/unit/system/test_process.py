"""Programs are run without a shell, bounded in time, and say clearly what is wrong."""

from __future__ import annotations

import os
import sys
import time

import pytest

from dlrun.errors import OperationFailed
from dlrun.system.process import NotInstalled, run


def python(code: str, **given):
    return run([sys.executable, "-c", code], **given)


def test_everything_said_and_the_code():
    done = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_arguments_are_no_shell_code(tmp_path):
    done = run(["printf", "%s", "$(touch x); *"], directory=tmp_path)
    assert done.stdout == "$(touch x); *"
    assert list(tmp_path.iterdir()) == []


def test_input_environment_and_directory(tmp_path):
    done = python(
        "import os, sys; print(sys.stdin.read(), sorted(os.environ), os.getcwd())",
        text="hello",
        environment={"A": "1", "LC_ALL": "C.UTF-8"},
        directory=tmp_path,
    )
    assert done.stdout == f"hello ['A', 'LC_ALL'] {tmp_path}\n"


def test_there_is_no_terminal_to_wait_for():
    assert python("import sys; print(repr(sys.stdin.read()))").stdout == "''\n"


def test_bytes_that_are_no_text_survive():
    done = python(r"import sys; sys.stdout.buffer.write(b'a\xff\n')")
    assert done.stdout.encode("utf-8", "surrogateescape") == b"a\xff\n"


def test_a_program_that_is_not_there():
    with pytest.raises(NotInstalled, match=r"`no-such-client` is not installed here") as caught:
        run(["no-such-client"])
    assert caught.value.exit_code == 2
    assert caught.value.help


def test_the_program_is_looked_up_in_the_given_path(tmp_path):
    with pytest.raises(NotInstalled):
        run(["printf", "x"], environment={"PATH": str(tmp_path)})


def test_a_directory_that_is_gone(tmp_path):
    with pytest.raises(OperationFailed, match="does not exist any more"):
        run(["true"], directory=tmp_path / "no")


def test_a_program_that_may_not_run(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(OperationFailed, match="cannot run"):
        run([str(tmp_path / "x")])


@pytest.mark.slow
def test_too_slow_and_its_children_die_too(tmp_path):
    pid = tmp_path / "pid"
    begun = time.monotonic()
    with pytest.raises(OperationFailed, match="did not answer within 20 s"):
        run(["sh", "-c", f"sleep 600 & echo $! > {pid}; wait"], timeout=20)
    assert time.monotonic() - begun < 300
    child = int(pid.read_text())
    for _ in range(600):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        pytest.fail("the child lives")
