"""What paramiko is told: ssh's configuration, and host keys that must be known."""

from __future__ import annotations

import paramiko
import pytest

from dlrun.errors import AuthenticationFailed, Invalid
from dlrun.system.transport import paramiko_login as login

CONFIGURATION = """\
Host far
  HostName far.example
  User ada
  Port 2200
  ProxyJump bob@gate:2222, inner
  IdentityFile ~/.ssh/special
Host alias
  HostName far.example
  HostKeyAlias other
"""


def look_up(name):
    return login.look_up(name, paramiko.SSHConfig.from_text(CONFIGURATION))


def test_configuration_is_followed(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    far = look_up("far")
    assert (far.host, far.port, far.user, far.known_as) == ("far.example", 2200, "ada", "[far.example]:2200")
    assert far.jumps == ("bob@gate:2222", "inner")
    assert far.keys == (tmp_path / ".ssh/special",)
    assert look_up("alias").known_as == "other"


def test_what_the_user_writes_comes_first():
    hop = look_up("eve@far:24")
    assert (hop.user, hop.port, hop.host) == ("eve", 24, "far.example")


@pytest.mark.parametrize("name", ["a:abc", "a:", "a:-1", "a:2²", "eve@far:" + "9" * 5000])
def test_a_port_that_is_no_number_is_an_error_with_a_message(name):
    if name == "a:":
        assert look_up(name).port == 22
        return
    with pytest.raises(Invalid, match="is not a number"):
        look_up(name)


@pytest.fixture(scope="module")
def keys():
    return [paramiko.ECDSAKey.generate() for _ in range(2)]


def known(tmp_path, monkeypatch, lines):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/known_hosts").write_text("\n".join(lines) + "\n")
    target = look_up("elsewhere")
    return target, login._known_keys(target)


def line(host, key):
    return f"{host} {key.get_name()} {key.get_base64()}"


def test_known_key_passes_and_a_changed_one_does_not(keys, tmp_path, monkeypatch):
    hashed = paramiko.HostKeys.hash_host("elsewhere")
    for host in ("elsewhere", hashed):
        place = tmp_path / host[:1]
        place.mkdir()
        target, found = known(
            place, monkeypatch, ["nonsense", "elsewhere ssh-rsa AAAA!", line(host, keys[0])]
        )
        login._check_key(target, keys[0], found)
        with pytest.raises(AuthenticationFailed, match="has changed"):
            login._check_key(target, keys[1], found)


def test_key_of_nobody_is_refused(keys, tmp_path, monkeypatch):
    target, found = known(tmp_path, monkeypatch, [line("another", keys[0])])
    with pytest.raises(AuthenticationFailed, match="is not known"):
        login._check_key(target, keys[0], found)


def test_key_files(keys, tmp_path, monkeypatch):
    """Any kind is found out; one with a passphrase needs somebody who knows it."""
    keys[0].write_private_key_file(str(tmp_path / "plain"))
    keys[0].write_private_key_file(str(tmp_path / "locked"), password="open sesame")
    (tmp_path / "nonsense").write_text("not a key")
    assert login._read_key(tmp_path / "plain", None, prompt=False) == keys[0]
    assert login._read_key(tmp_path / "nonsense", None, prompt=False) is None
    assert login._read_key(tmp_path / "locked", None, prompt=False) is None
    monkeypatch.setattr("getpass.getpass", lambda _: "open sesame")
    assert login._read_key(tmp_path / "locked", None, prompt=True) == keys[0]
    monkeypatch.setattr("getpass.getpass", lambda _: "wrong")
    assert login._read_key(tmp_path / "locked", None, prompt=True) is None
