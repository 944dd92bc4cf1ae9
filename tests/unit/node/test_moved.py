"""What a site's own mover brings counts only as far as it is what the source has; `stage` brings the rest."""

import json
import os
import shutil
import subprocess

import pytest

from .programs import run
from .trees import odd, snapshot, write

BY = ["packed", "files", "tree", "placed"]


class Node:
    """One node of a job that a mover brings a set to."""

    def __init__(self, top, state, source, by, number, *more):
        self.area, self.state, self.by, self.number = top / f"node{number}", state, by, number
        self.words = ("--source", source, "--name", "set", "--to", self.area, "--job", "7", *more)
        self.parcel = self.area / ".dlrun" / "parcel.set@7"

    def moved(self, step, *more):
        place = ("--state", self.state, "--by", self.by, "--index", self.number)
        return run("moved", step, *place, *self.words, *more)

    def stage(self, *more):
        return run("stage", *self.words, "--json", *more)

    def data(self):
        return self.area / "set" / "data"


@pytest.fixture
def job(tmp_path):
    """A job of two nodes, and a mover of each kind that does its work with ordinary programs."""
    (tmp_path / "state").mkdir()

    def made(source, by, *more, count=2):
        return [Node(tmp_path, tmp_path / "state", source, by, n, *more) for n in range(count)]

    return made


def bring(nodes, names=None):
    """What sbcast, dbcast and dcp do: one file to every node, single files to every node, one tree."""
    first, state = nodes[0], nodes[0].state
    root = (state / "root").read_text()
    for node in nodes:
        if first.by == "packed":
            packed = first.area / ".dlrun" / "pack.set@7"
            shutil.copyfile(packed / "data" / "set.tar", node.parcel / "tar")
            shutil.copyfile(packed / "manifest", node.parcel / "manifest")
        elif first.by == "files":
            listed = (state / "files").read_bytes().decode().split("\0")[:-1]
            for name in listed if names is None else names:
                (node.parcel / "data" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(os.path.join(root, name), node.parcel / "data" / name)
        else:
            subprocess.run(["cp", "-rp", root, node.parcel / "data"], check=True)


def prepared(nodes):
    for step, some in (("look", nodes[:1]), ("room", nodes), ("read", nodes[:1])):
        for node in some:
            done = node.moved(step)
            assert done.status == 0, done.err


def left(node):
    """What stands between mover and data set on a node."""
    return [p.name for p in (node.area / ".dlrun").iterdir() if p.name.startswith(("parcel", "pack", "part"))]


@pytest.fixture
def source(tmp_path):
    for number in range(40):
        write(os.fsencode(tmp_path / "source" / f"d{number % 7}" / f"f{number}"), os.urandom(number * 400))
    write(os.fsencode(tmp_path / "source" / "large"), os.urandom(9 << 20))
    (tmp_path / "source" / "d1" / "f1").chmod(0o444)
    (tmp_path / "source" / "empty").mkdir()
    os.symlink("large", tmp_path / "source" / "link")
    os.link(tmp_path / "source" / "large", tmp_path / "source" / "same")
    return tmp_path / "source"


@pytest.mark.parametrize("by", BY)
def test_what_a_mover_brings_is_published_without_a_copy(job, source, by):
    nodes = job(source, by)
    prepared(nodes)
    bring(nodes)
    for node in nodes:
        adopted = node.moved("adopt", "--strict")
        assert adopted.status == 0, adopted.err
        assert "brought by the site's mover and as in the source: 41 files" in adopted.err
        assert not node.data().exists(), "published by `stage` alone"
        done = node.stage().done()
        assert (done["how"], done["copied"]) == ("copied", 0)
        assert snapshot(node.data()) == snapshot(source)
        assert left(node) == []


def test_names_of_any_bytes_and_holes_arrive_packed(job, tmp_path):
    before = odd(tmp_path / "source")
    (node,) = job(tmp_path / "source", "packed", count=1)
    prepared([node])
    bring([node])
    assert node.moved("adopt", "--strict").status == 0
    assert node.stage().done()["copied"] == 0
    assert snapshot(node.data()) == before


def test_a_packed_set_stays_packed(job, source):
    nodes = job(source, "packed", "--strategy", "pack")
    prepared(nodes)
    bring(nodes)
    for node in nodes:
        assert node.moved("adopt", "--strict").status == 0
        assert node.stage().done()["copied"] == 0
        names = subprocess.run(
            ["tar", "tf", node.data() / "set.tar"], capture_output=True, text=True, check=True
        )
        assert "d1/f8" in names.stdout.splitlines()


@pytest.mark.parametrize("by", BY)
def test_what_a_mover_damages_is_named_and_copied_by_stage(job, source, by):
    nodes = job(source, by)
    prepared(nodes)
    bring(nodes)
    victim = nodes[1].parcel / ("tar" if by == "packed" else "data/large")
    with victim.open("r+b") as file:
        file.seek(victim.stat().st_size - (1 << 20))
        file.write(b"damage")
    adopted = nodes[1].moved("adopt")
    assert adopted.status == 0, adopted.err
    assert "the site's mover did not bring `large` as the source has it" in adopted.err
    assert 0 < nodes[1].stage().done()["copied"] <= 9 << 20
    assert snapshot(nodes[1].data()) == snapshot(source)


@pytest.mark.parametrize("by", BY)
def test_only_the_file_that_is_missing_or_damaged_counts_as_not_brought(job, source, by):
    (node,) = job(source, by, count=1)
    prepared([node])
    bring([node])
    if by == "packed":
        tar, wanted = node.parcel / "tar", (source / "d5" / "f5").read_bytes()
        tar.write_bytes(tar.read_bytes().replace(wanted, bytes(len(wanted)), 1))
    else:
        (node.parcel / "data" / "d5" / "f5").unlink()
    adopted = node.moved("adopt")
    assert adopted.status == 0, adopted.err
    assert "the site's mover did not bring `d5/f5` as the source has it\n" in adopted.err
    assert "as in the source: 40 files, 9.75 MB\n" in adopted.err
    node.stage()
    assert snapshot(node.data()) == snapshot(source)


@pytest.mark.parametrize("by", BY)
def test_a_strict_site_hears_of_damage_and_nothing_is_left(job, source, by):
    (node,) = job(source, by, count=1)
    prepared([node])
    bring([node], names=["large"])
    if by == "packed":
        os.truncate(node.parcel / "tar", 9 << 20)
    elif by != "files":
        os.unlink(node.parcel / "data" / "d2" / "f2")
    adopted = node.moved("adopt", "--strict")
    assert adopted.status == 1
    assert "the site's mover did not bring" in adopted.err
    assert not node.data().exists()


def test_a_mover_that_brought_nothing_leaves_all_to_stage(job, source):
    (node,) = job(source, "packed", count=1)
    prepared([node])
    adopted = node.moved("adopt")
    assert adopted.status == 1
    assert "the site's mover brought no manifest" in adopted.err
    assert left(node) == []
    assert node.stage().done()["how"] == "copied"


def test_nodes_that_have_the_set_want_nothing(job, source):
    nodes = job(source, "packed")
    nodes[0].stage()
    prepared(nodes)
    assert [p.name for p in nodes[0].state.glob("wanted-*")] == ["wanted-1"]
    bring(nodes)
    for node in nodes:
        assert node.moved("adopt").status == 0
        assert left(node) in ([], ["part.set"])
    assert [node.stage().done()["how"] for node in nodes] == ["warm", "copied"]


def test_a_source_that_changed_since_is_copied_anew_where_it_did(job, source):
    (node,) = job(source, "packed", count=1)
    prepared([node])
    bring([node])
    (source / "d2" / "f2").write_bytes(b"new")
    assert node.moved("adopt").status == 0
    assert 0 < node.stage().done()["copied"] < 1 << 20
    assert snapshot(node.data()) == snapshot(source)


def test_a_source_that_changes_while_it_is_packed_is_told(job, source):
    (node,) = job(source, "packed", count=1)
    assert node.moved("look").status == 0
    assert node.moved("room").status == 0
    (source / "d2" / "f2").write_bytes(b"new")
    told = node.moved("read")
    assert told.status == 1
    assert "the source changed while it was copied" in told.err


@pytest.mark.parametrize("by", ["files", "tree"])
def test_a_source_that_changes_while_it_is_hashed_is_told(job, source, by):
    (node,) = job(source, by, count=1)
    assert node.moved("look").status == 0
    assert node.moved("room").status == 0
    (source / "d2" / "f2").write_bytes(b"new")
    told = node.moved("read")
    assert told.status == 1
    assert "`d2/f2`" in told.err


@pytest.mark.parametrize(
    ("by", "more", "said"),
    [
        ("files", (), "it moves single files, and the set has 100"),
        ("tree", ("--exclude", "*1"), "it moves whole directories, and the set is a part of one"),
        ("placed", ("--include", "f1*"), "it moves whole directories, and the set is a part of one"),
        ("tree", ("--strategy", "pack"), "it moves files as they are, and the set is to be packed"),
    ],
)
def test_a_set_that_a_mover_cannot_move_is_left_to_stage(job, tmp_path, by, more, said):
    for number in range(100):
        write(os.fsencode(tmp_path / "source" / f"f{number}"), b"x")
    (node,) = job(tmp_path / "source", by, *more, count=1)
    looked = node.moved("look")
    assert looked.status == 3
    assert said in looked.err


def test_room_for_what_the_mover_needs_besides_is_asked_before_the_first_byte(job, source):
    (node,) = job(source, "packed", count=1)
    assert node.moved("look").status == 0
    head = json.loads((node.state / "head").read_text())
    assert head["needed"] > 2 * head["size"], "the files, and the one file that brings them"
    (node.state / "head").write_text(json.dumps(dict(head, needed=1 << 60)))
    refused = node.moved("room", "--strict")
    assert refused.status == 1
    assert f"node {os.uname().nodename}: `{node.area}` needs 1153 PB and has" in refused.err
    assert node.moved("room").status == 0, "it may fit without what the mover needs besides"
    assert "needs" in (node.state / "refused").read_text()
    assert list(node.state.glob("wanted-*")) == []


def test_what_stands_there_already_needs_no_room_besides(job, source):
    (node,) = job(source, "placed", count=1)
    assert node.moved("look").status == 0
    head = json.loads((node.state / "head").read_text())
    assert (head["needed"], head["files"]) == (0, 0)


def test_the_end_of_the_job_takes_what_a_killed_mover_left(job, source):
    (node,) = job(source, "packed", count=1)
    prepared([node])
    assert sorted(left(node)) == ["pack.set@7", "parcel.set@7"]
    run("clean", "--to", node.area, "--job", "8")
    assert sorted(left(node)) == ["pack.set@7", "parcel.set@7"]
    run("clean", "--to", node.area, "--job", "7")
    assert left(node) == []
