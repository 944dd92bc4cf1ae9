"""How OpenSSH is called: sharing, batch mode, and options that respect the user's configuration."""

from __future__ import annotations

import io
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlrun.errors import Invalid
from dlrun.system.transport import may_prompt, open_transport
from dlrun.system.transport.openssh import OpenSshTransport, _necessary, _through, socket_directory
from dlrun.system.transport.session import run

SSH = """\
#!/bin/bash
printf '%q ' "$@" >>"$CALLS"; echo >>"$CALLS"
for word; do
  case $word in
  -G) printf 'hostname far.example\\nport 22\\nuser ada\\nserveraliveinterval 0\\nconnecttimeout none\\n'; exit ;;
  -Ocheck) [[ -e $CALLS.shared ]]; exit ;;
  true) touch "$CALLS.shared"; exit ;;
  esac
done
exec /bin/sh -c "${@: -1}"
"""


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A directory with a name short enough for sockets, which pytest's own need not have."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        yield Path(place)


@pytest.fixture
def calls(tmp_path, runtime, monkeypatch):
    """A fake `ssh` that runs commands here and writes down how it was called."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return tmp_path / "calls"


def test_one_connection_is_made_and_the_rest_goes_through_it(calls, runtime):
    transport = OpenSshTransport("far", prompt=False)
    assert run(transport, "echo one").stdout == b"one\n"
    assert run(transport, "echo two").stdout == b"two\n"
    lines = calls.read_text().splitlines()
    connecting = [line for line in lines if line.split()[-1] == "true"]
    running = [line for line in lines if "bash" in line]
    assert len(connecting) == 1
    assert len(running) == 2
    for line in connecting + running:
        assert "-oBatchMode=yes" in line
        assert "-oControlMaster=auto" in line
        assert f"-oControlPath={runtime}/dlrun/" in line
        assert "-oServerAliveInterval=15" in line
        assert "-oConnectTimeout=20" in line
        assert " -- far " in line


def test_next_command_finds_the_connection(calls):
    run(OpenSshTransport("far", prompt=False), "true")
    calls.write_text("")
    run(OpenSshTransport("far", prompt=False), "true")
    assert not any(line.split()[-1] == "true" for line in calls.read_text().splitlines())


def test_users_own_shared_connection_comes_first(calls):
    calls.with_name("calls.shared").touch()
    run(OpenSshTransport("far", prompt=False), "true")
    assert "ControlPath" not in calls.read_text()


def test_only_the_first_connection_may_ask(calls):
    run(OpenSshTransport("far", prompt=True), "true")
    asking = [line for line in calls.read_text().splitlines() if "-oBatchMode=no" in line]
    assert [line.split()[-1] for line in asking] == ["true"]


def test_options_leave_what_the_user_set():
    mine = {"serveraliveinterval": "60", "connecttimeout": "7", "stricthostkeychecking": "accept-new"}
    assert _necessary(mine) == ["-oClearAllForwardings=yes", "-oForwardAgent=no", "-oForwardX11=no"]


@pytest.mark.parametrize("value", ["no", "off", "false"])
def test_changed_key_never_passes(value):
    assert "-oStrictHostKeyChecking=accept-new" in _necessary({"stricthostkeychecking": value})


def test_command_of_the_configuration_does_not_replace_ours():
    assert "-oRemoteCommand=none" in _necessary({"remotecommand": "tmux attach"})


def test_jump_hosts_are_passed_one_through_the_other():
    command = _through(["a", "bob@b:2222"], "yes", "/tmp/errors")
    assert "ssh://bob@b:2222" in command
    assert command.count("-oBatchMode=yes") == 2
    assert "%%h" in command  # the inner command's tokens are for the inner ssh


def test_sockets_are_in_a_place_of_ones_own(runtime):
    place = socket_directory({"XDG_RUNTIME_DIR": str(runtime)})
    assert place == runtime / "dlrun"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def elsewhere(runtime):
    """Where sockets are when somebody else has the known place: private, and the same the next time."""
    environment = {"XDG_RUNTIME_DIR": str(runtime), "XDG_STATE_HOME": str(runtime / "state")}
    place = socket_directory(environment)
    try:
        assert place.parent != runtime
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert socket_directory(environment) == place
        place.chmod(0o755)
        other = socket_directory(environment)
        assert other != place
        other.rmdir()
    finally:
        place.rmdir()


def test_place_that_others_can_enter_is_passed_over(runtime):
    (runtime / "dlrun").mkdir(mode=0o755)
    elsewhere(runtime)


def test_planted_link_is_no_place_for_sockets(runtime):
    (runtime / "mine").mkdir(mode=0o700)
    (runtime / "dlrun").symlink_to(runtime / "mine")
    elsewhere(runtime)


def test_long_runtime_directory_is_passed_over(tmp_path):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    assert len(str(socket_directory({"XDG_RUNTIME_DIR": str(long)}))) < 60


@pytest.mark.parametrize("host", ["-oProxyCommand=touch x", "", "a b", "a\nb"])
def test_option_is_no_host_name(host):
    with pytest.raises(Invalid, match="is not a valid host name"):
        open_transport(host)


def test_nobody_is_asked_without_a_terminal(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert not may_prompt({})
    assert not may_prompt({"SSH_ASKPASS": "ask"})
    assert may_prompt({"SSH_ASKPASS": "ask", "SSH_ASKPASS_REQUIRE": "force"})
