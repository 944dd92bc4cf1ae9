"""What later versions of Python brought is easily used by mistake: the parts that meet it, on each Python of this machine."""

import os
import signal
import subprocess

import pytest

from tests import programs as machine
from tests.examples import cases
from tests.unit.node import programs
from tests.unit.node.programs import NO_SPARE, run, staging, start_held
from tests.unit.node.relay.test_chain import until
from tests.unit.node.trees import odd, snapshot, write


@pytest.fixture(params=cases(range(6, 15), quick=3), ids=[f"3.{minor}" for minor in range(6, 15)])
def python(request, monkeypatch):
    """One of the Pythons that a node may have, with which node programs run."""
    monkeypatch.setattr(programs, "PYTHON", machine.python(request.param))


@pytest.mark.slow
@pytest.mark.each_python
def test_early_files_go_with_their_job_and_the_set_stays_known(tmp_path, python):
    before = odd(tmp_path / "source")
    words = (*staging(tmp_path / "source", tmp_path / "to"), "--job", "7", "--json")
    run(*words, "--start", "1 file", "--started", tmp_path / "started").done()
    assert run("clean", "--to", tmp_path / "to", "--job", "7").status == 0
    assert sorted(os.listdir(tmp_path / "to")) == [".dlrun", "set"]
    assert snapshot(tmp_path / "to" / "set" / "data") == before
    assert run(*words).done()["how"] == "warm"


def test_a_killed_copy_of_what_fits_is_continued(tmp_path, python):
    for number in range(6):
        write(os.fsencode(tmp_path / "source" / f"shard-{number}"), os.urandom(5 << 20))
    words = (
        *staging(tmp_path / "source", tmp_path / "to"),
        "--strategy",
        "part",
        "--room",
        "28MB",
        "--json",
        "--workers",
        "1",
    )
    killed = start_held(tmp_path / "gate", *words, prelude=NO_SPARE)
    part = tmp_path / "to" / ".dlrun" / "part.set"
    until(lambda: any(path.stat().st_size for path in part.glob("journal.*")))
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    done = run(*words, prelude=NO_SPARE).done()
    assert 0 < done["copied"] < 5 * (5 << 20), "what had been copied is kept"


def test_names_of_any_alphabet_are_listed_in_the_c_locale(tmp_path, python, monkeypatch):
    write(os.fsencode(tmp_path / "s\u00e4tze" / "file"))
    run(*staging(tmp_path / "s\u00e4tze", tmp_path / "to"), "--json").done()
    monkeypatch.setenv("LC_ALL", "C")
    listed = run("list", "--to", tmp_path / "to")
    assert (listed.status, listed.err) == (0, "")
    assert "s\u00e4tze" in listed.out


@pytest.mark.parametrize("minor", range(6, 11))
def test_dlrun_itself_says_which_python_it_needs(minor):
    old = machine.python(minor)
    ran = subprocess.run([old, "-m", "dlrun"], capture_output=True, text=True, check=False, cwd=programs.ROOT)
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"error: dlrun needs Python 3.11 or later, and this is 3.{minor}.")
    assert ran.stderr.count("\n") == 1
