"""What others could plant, and what a node cannot do: refused with a clear message, nothing written astray."""

import argparse
import os
import socket
import subprocess
import sys
import tempfile

import pytest
from dlrun.node import bundle
from dlrun.node.commands import options
from dlrun.node.common import safety
from dlrun.node.common.errors import Unsafe

from tests.programs import need, python_of_all
from tests.unit.node.programs import ROOT, run, staging
from tests.unit.node.trees import snapshot, write

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")


@pytest.fixture
def source(tmp_path):
    write(os.fsencode(tmp_path / "source" / "f"), b"data")
    return tmp_path / "source"


def refused(*arguments):
    found = run("stage", *arguments)
    assert found.status in (1, 2)
    assert found.out == ""
    return found.err


def test_a_link_planted_for_the_staging_directory_is_not_followed(tmp_path, source):
    (tmp_path / "victim").mkdir()
    os.chmod(tmp_path / "victim", 0o777)
    os.symlink(tmp_path / "victim", tmp_path / "node")
    assert "can be changed by other users" in refused(
        "--source", source, "--to", tmp_path / "node", "--name", "s"
    )
    assert os.listdir(tmp_path / "victim") == []


@pytest.mark.parametrize("mode", [0o702, 0o707, 0o777, 0o770])
def test_a_directory_open_to_others_is_refused(tmp_path, source, mode):
    (tmp_path / "node").mkdir()
    if mode == 0o770:  # a group that is not the user's private one
        if os.geteuid():
            pytest.skip("only root may give a directory to another group")
        os.chown(tmp_path / "node", -1, 54321)
    os.chmod(tmp_path / "node", mode)
    assert f"mode {mode:04o}" in refused("--source", source, "--to", tmp_path / "node", "--name", "s")


@pytest.mark.slow
def test_a_staging_directory_inside_the_source_is_refused_unless_it_is_left_out(tmp_path, source):
    write(os.fsencode(tmp_path / "source" / "one.tar"), b"data")
    inside = tmp_path / "source" / "local"
    os.symlink(tmp_path / "source", tmp_path / "link")
    for given in (source, tmp_path / "link", tmp_path / "sour*"):
        for to in (inside, tmp_path / "link" / "local"):
            assert "is inside the source" in refused("--source", given, "--to", to, "--name", "s")
    for more in (("--source", source, "--exclude", "local"), ("--source", source / "*.tar")):
        found = run("stage", *more, "--to", inside, "--name", "s")
        assert found.status == 0, found.err
    found = run("stage", "--source", inside / "s" / "data", "--to", inside, "--name", "again")
    assert found.status == 0, found.err


@as_root
def test_another_users_directory_or_link_is_refused(tmp_path, source):
    (tmp_path / "node").mkdir()
    os.chown(tmp_path / "node", 1234, 1234)
    assert "belongs to another user (uid 1234)" in refused(
        "--source", source, "--to", tmp_path / "node", "--name", "s"
    )
    (tmp_path / "ours").mkdir(mode=0o700)
    os.symlink(tmp_path / "ours", tmp_path / "link")
    os.lchown(tmp_path / "link", 1234, 1234)
    assert "belongs to another user" in refused("--source", source, "--to", tmp_path / "link", "--name", "s")
    assert os.listdir(tmp_path / "ours") == []


@as_root
def test_another_users_data_set_is_refused(tmp_path, source):
    (tmp_path / "node").mkdir(mode=0o700)
    (tmp_path / "node" / "s").mkdir()
    os.chown(tmp_path / "node" / "s", 1234, 1234)
    assert "belongs to another user" in refused("--source", source, "--to", tmp_path / "node", "--name", "s")


def test_a_link_in_place_of_a_data_set_is_refused(tmp_path, source):
    (tmp_path / "node").mkdir(mode=0o700)
    (tmp_path / "victim").mkdir()
    os.symlink(tmp_path / "victim", tmp_path / "node" / "s")
    assert "is not a data set" in refused("--source", source, "--to", tmp_path / "node", "--name", "s")
    assert os.listdir(tmp_path / "victim") == []


@pytest.mark.parametrize("planted", ["link", "dangling link", "file"])
def test_a_link_or_file_in_place_of_the_control_directory_is_refused(tmp_path, source, planted):
    place, control = tmp_path / "node", tmp_path / "node" / ".dlrun"
    place.mkdir(mode=0o700)
    (tmp_path / "victim").mkdir()
    if planted == "file":
        control.write_text("")
    else:
        control.symlink_to(tmp_path / ("victim" if planted == "link" else "nowhere"))
    error = refused("--source", source, "--to", place, "--name", "s")
    assert f"`{control}` must be a directory" in error
    assert f"`rm {control}`" in error
    assert os.listdir(tmp_path / "victim") == []
    assert os.listdir(place) == [".dlrun"]


def test_links_left_in_a_half_built_set_lead_no_write_astray(tmp_path, source):
    """A killed run can leave links; where the new source has a directory of that name, it must not be written through."""
    write(os.fsencode(source / "sub" / "f"), b"data")
    (tmp_path / "victim").mkdir()
    data = tmp_path / "node" / ".dlrun" / "part.s" / "data"
    data.mkdir(parents=True)
    for path in (tmp_path / "node", tmp_path / "node" / ".dlrun"):
        os.chmod(path, 0o700)
    os.symlink(tmp_path / "victim", data / "sub")
    os.symlink(tmp_path / "victim" / "written", data / "f")
    assert run("stage", "--source", source, "--to", tmp_path / "node", "--name", "s").status == 0
    assert os.listdir(tmp_path / "victim") == []
    assert snapshot(tmp_path / "node" / "s" / "data") == snapshot(source)


@pytest.mark.slow
def test_devices_and_set_user_id_bits_are_refused_or_left_out_and_told(tmp_path, source):
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(source)
        listener.bind("socket")
        os.chdir(ROOT)
    assert "devices, pipes or sockets: `pipe`, `socket`" in refused(
        "--source", source, "--to", tmp_path / "n", "--name", "s"
    )
    write(os.fsencode(source / "su"), b"x", 0o4755)
    found = run(
        "stage", "--source", source, "--to", tmp_path / "n", "--name", "s", "--skip-special", "--json"
    ).done()
    assert "left out, neither file nor link: `pipe`, `socket`" in found["notes"]
    assert "set-user-id, set-group-id and sticky bits stripped: `su`" in found["notes"]
    assert sorted(os.listdir(found["path"])) == ["f", "su"]
    assert (tmp_path / "n" / "s" / "data" / "su").stat().st_mode & 0o7777 == 0o755
    os.unlink(source / "pipe")
    os.unlink(source / "socket")
    assert "set-user-id, set-group-id or sticky modes: `su`" in refused(
        "--source", source, "--to", tmp_path / "n", "--name", "s2"
    )


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "/etc", "a b", "x" * 129])
def test_a_name_that_is_not_one_is_refused(tmp_path, source, name):
    assert "is not a valid name of a data set" in refused(
        "--source", source, "--to", tmp_path / "n", "--name", name
    )
    assert not (tmp_path / "n").exists()


def test_a_source_that_is_not_there_is_told(tmp_path):
    assert "does not exist" in refused("--source", tmp_path / "none", "--to", tmp_path / "n", "--name", "s")
    assert "nothing in" in refused("--source", tmp_path / "*.h5", "--to", tmp_path / "n", "--name", "s")


def as_nobody(pyz, *arguments):
    """Run the one-file node program as a user who is not root, by a Python that every user may run."""
    python = python_of_all()
    code = "import os, sys; os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"
    whole = [sys.executable, "-c", code, python, pyz, *map(str, arguments)]
    return subprocess.run(whole, capture_output=True, text=True, check=False, cwd="/")


@pytest.fixture
def open_path():
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        os.chmod(path, 0o755)
        bundle.write(path + "/node.pyz")
        yield path


@pytest.mark.slow
@as_root
def test_a_source_unreadable_in_part_is_told_and_nothing_published(open_path):
    write(os.fsencode(open_path) + b"/source/good", b"data")
    write(os.fsencode(open_path) + b"/source/bad", b"data", 0o600)
    write(os.fsencode(open_path) + b"/source/shut/f", b"data")
    os.chmod(open_path + "/source/shut", 0o700)
    os.mkdir(open_path + "/home")
    os.chown(open_path + "/home", 65534, 65534)
    arguments = (
        open_path + "/node.pyz",
        *staging(open_path + "/source", open_path + "/home/node", "s"),
    )
    found = as_nobody(*arguments)
    assert found.returncode == 1
    assert "2 entries of the source cannot be read: `shut`, `bad` (Permission denied)" in found.stderr
    os.chmod(open_path + "/source/shut", 0o755)
    found = as_nobody(*arguments)
    assert found.returncode == 1
    assert "1 entry of the source cannot be read: `bad` (Permission denied)" in found.stderr
    assert os.listdir(open_path + "/home/node") == [".dlrun"]
    assert as_nobody(*arguments, "--exclude", "bad").returncode == 0


@pytest.mark.slow
@as_root
def test_a_node_without_local_storage_is_told(open_path):
    write(os.fsencode(open_path) + b"/source/good", b"data")
    found = as_nobody(
        open_path + "/node.pyz",
        *staging(open_path + "/source", open_path + "/scratch/node", "s"),
    )
    assert found.returncode == 1
    assert "there is no node-local storage at" in found.stderr


def on_small_disk(tmp_path, script, inodes=None):
    """Run a shell script where $DISK is an empty file system of 24 MB in memory, or on a disk with so many inodes."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    need("unshare")
    need("mount")
    need("mkfs.ext4")
    (tmp_path / "disk").mkdir()
    mount = 'mount -t tmpfs -o size=24m,mode=0755 tmpfs "$DISK"'
    if inodes is not None:
        image = tmp_path / "image"
        with image.open("wb") as file:
            file.truncate(24 << 20)
        mount = f'mkfs.ext4 -q -N {inodes} {image} && mount -o loop {image} "$DISK"'
    whole = f"{{ {mount}; }} || exit 77; " + script
    found = subprocess.run(
        ["unshare", "--mount", "sh", "-c", whole],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=dict(
            os.environ,
            DISK=str(tmp_path / "disk"),
            SOURCE=str(tmp_path / "source"),
            PYTHONPATH=str(ROOT),
            PYTHON=sys.executable,
        ),
    )
    if found.returncode == 77:
        pytest.skip(f"cannot mount here: {found.stderr.strip()}")
    return found


@pytest.mark.slow
def test_no_space_is_known_before_the_first_byte(tmp_path, source):
    write(os.fsencode(source / "big"), os.urandom(30 << 20))
    found = on_small_disk(
        tmp_path,
        '$PYTHON -m dlrun.node stage --source "$SOURCE" --to "$DISK/node" --name s; echo "status $?"; find "$DISK/node" -type f',
    )
    assert "needs 31.5 MB and has" in found.stderr
    assert "status 1" in found.stdout
    assert "/data/" not in found.stdout


@pytest.mark.slow
def test_space_that_vanishes_midway_leaves_nothing_behind(tmp_path, source):
    for number in range(60):
        write(os.fsencode(source / str(number)), os.urandom(300_000))
    found = on_small_disk(
        tmp_path,
        '$PYTHON -m dlrun.node stage --source "$SOURCE" --to "$DISK/node" --name s --rate 2M & '
        'while ! ls "$DISK"/node/.dlrun/part.s/data/1* >/dev/null 2>&1; do sleep 0.05; done; '
        'dd if=/dev/zero of="$DISK/other" bs=1M 2>/dev/null; '
        'wait $!; echo "status $?"; find "$DISK/node" -type f',
    )
    assert "the disk filled up while the data was written" in found.stderr
    assert "status 1" in found.stdout
    assert "/data/" not in found.stdout


def test_a_secret_must_be_private(tmp_path):
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    os.chmod(path, 0o640)
    with pytest.raises(Unsafe, match="not private"):
        safety.read_secret(str(path))
    os.chmod(path, 0o600)
    assert safety.read_secret(str(path)) == b"0123456789abcdef0123456789abcdef"
    path.write_text("short")
    with pytest.raises(Unsafe, match="shorter than 16"):
        safety.read_secret(str(path))


@pytest.mark.parametrize("name", ["check-rank", "check-site", "stage", "list"])
def test_every_command_has_help(name):
    shown = run(name, "--help")
    assert (shown.status, shown.err) == (0, "")
    assert name in shown.out


@pytest.mark.parametrize("columns", ["", "60", "0", "wide"])
def test_help_is_as_wide_as_that_of_other_programs(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    parser = options.Parser("stage", "some words about what this command does, more than a line of them " * 3)
    options.store_options(parser)
    usual = argparse.ArgumentParser(prog=parser.prog, description=parser.description)
    for action in parser._actions[1:]:
        usual._add_action(action)
    assert parser.format_help() == usual.format_help()


def test_a_program_ends_with_its_threads_and_only_with_its_output_written(monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    code = """if True:
        import sys, threading, time
        from dlrun.node import __main__ as node
        threading.Thread(target=lambda: (time.sleep(0.5), print("late"))).start()
        sys.argv[1:] = ["--help"]
        sys.exit(node.main())
    """
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage:")
    assert done.stdout.endswith("late\n")
    code = "import sys; from dlrun.node import __main__ as node; print('some words'); sys.exit(node.main())"
    words = [sys.executable, "-c", code, "no command"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, "No space left" in done.stderr) == (120, True)
