"""Scripts and their conversations, over the transport that needs no network."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from hypothesis import given, settings, strategies as st

from dlrun.errors import OperationFailed
from dlrun.system.transport.child import Child
from dlrun.system.transport.local import LocalTransport
from dlrun.system.transport.protocol import Ended, TransportFailed
from dlrun.system.transport.scripts import DIRECTORY, script
from dlrun.system.transport.session import Session, run
from tests import house
from tests.examples import examples
from tests.programs import need, with_venv


@pytest.fixture
def here():
    return LocalTransport("here")


def test_script_gets_its_input_and_answers(here):
    answer = run(here, "cat; echo told >&2; exit 5", data=b"\x00\xff\n")
    assert (answer.stdout, answer.stderr, answer.returncode) == (b"\x00\xff\n", "told", 5)


def test_what_start_up_files_print_is_no_part_of_the_answer(here, tmp_path, monkeypatch):
    (tmp_path / ".bash_profile").write_text("echo Welcome; echo Sorry >&2; export FROM_PROFILE=yes\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    answer = run(here, 'echo "$FROM_PROFILE"; echo late >&2', login=True)
    assert (answer.stdout, answer.stderr) == (b"yes\n", "late")


def test_start_up_file_that_reads_or_leaves(here, tmp_path, monkeypatch):
    """One that waits for an answer gets none; one that runs another program is an error that says so."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bash_profile").write_text("read -r answer\n")
    assert run(here, "echo on", login=True).stdout == b"on\n"
    (tmp_path / ".bash_profile").write_text("echo your account has expired; exec false\n")
    with pytest.raises(OperationFailed, match="did not start bash: your account has expired"):
        run(here, "echo on", login=True)


def test_login_script_sees_variables_that_no_process_list_shows(here):
    seen = run(
        here,
        "printf %s \"$TOKEN\"; tr '\\0' ' ' </proc/$$/cmdline",
        login=True,
        variables={"TOKEN": "a 'b' $c"},
    )
    assert seen.stdout.startswith(b"a 'b' $cbash -l -c")
    assert b"a 'b'" not in seen.stdout[8:]


def test_conversation(here):
    with Session(here, 'while read -r word; do echo "<$word>"; head -c 3; done') as session:
        session.write(b"one\nabc")
        assert session.line() == "<one>"
        assert session.exactly(3) == b"abc"
        session.write(b"two\ndef")
        assert session.line() == "<two>"
        session.end()
        assert session.read() + session.read() == b"def"
        ended = session.finish()
        assert (ended.returncode, ended.stderr) == (0, "")


def test_script_that_ends_too_early(here):
    with Session(here, "echo half; echo no space >&2; exit 1") as session:
        assert session.line() == "half"
        with pytest.raises(TransportFailed, match="ended early: no space"):
            session.line()


def test_a_reason_has_no_mark_of_the_session_in_it(here, monkeypatch):
    """The connection breaks off right after the mark, before its line end."""
    with Session(here, "true") as session:
        monkeypatch.setattr(session._stream, "finish", lambda: Ended(255, b"motd\n" + session._mark))
        ended = session.finish()
        assert (ended.returncode, ended.stderr) == (255, "")


def test_reader_that_leaves_ends_the_writing(here):
    with Session(here, "echo enough; exit 3") as session:
        assert session.line() == "enough"
        while session.write(b"x" * 65536):
            pass
        assert session.finish().returncode == 3


def test_silence_is_not_waited_for(here):
    started = time.monotonic()
    with pytest.raises(TransportFailed, match=r"`here` did not answer within 0\.3 s"):
        run(here, "sleep 600", timeout=0.3)
    assert time.monotonic() - started < 300


def test_what_is_let_go_of_ends(here, tmp_path):
    with Session(here, f"echo $$ >{tmp_path}/pid; echo go; sleep 60") as session:
        assert session.line() == "go"
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_program_that_is_not_there_is_an_error_of_ours(monkeypatch):
    with pytest.raises(OperationFailed, match="cannot run `no-such-program`"):
        Child(["no-such-program"], host="here", timeout=1, failure=lambda _code, _said: None)


@settings(max_examples=examples(25))
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=4
    )
)
def test_any_text_arrives_in_a_script_as_it_is(words):
    given_words = script(words=words, first=words[0], sizes={word: len(word) for word in words if word})
    printing = 'printf \'%s\\0\' "$first" "${words[@]}" "${#sizes[@]}"'
    answer = run(LocalTransport("here"), f"{given_words}\n{printing}")
    assert answer.stdout.decode().split("\0") == [words[0], *words, str(len({w for w in words if w})), ""]


SCRIPTS = sorted((*DIRECTORY.glob("*.sh"), *house.ROOT.glob("dlrun/schedulers/*/find_*.sh")))


@pytest.mark.needs
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_pass_shellcheck(path):
    shellcheck = need("shellcheck", path=with_venv())
    done = subprocess.run([shellcheck, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
