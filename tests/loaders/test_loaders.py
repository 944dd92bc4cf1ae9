"""The examples of `examples/loaders` over staged data: two ranks read every sample once, whatever the format.

DLRUN_TEST_LOADERS names a Python that has the formats' packages; without one, those of this Python are used.
"""

import io
import itertools
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import dlrun.node
from tests.unit.node.programs import run

EXAMPLES = Path(__file__).parents[2] / "examples" / "loaders"
HELPER = Path(dlrun.node.__file__).parent
PYTHON = os.environ.get("DLRUN_TEST_LOADERS", sys.executable)
NAMES = [f"sample-{number:02}" for number in range(32)]

pytestmark = pytest.mark.slow


def needs(*packages):
    """Skip the test by name where its Python lacks a package."""
    for package in packages:
        done = subprocess.run([PYTHON, "-c", f"import {package}"], capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"{PYTHON} has no {package} (DLRUN_TEST_LOADERS)")


def make(code, directory):
    """Make a source with the packages of the tests' Python."""
    directory.mkdir()
    begin = f"names = {json.dumps(NAMES)}; directory = {str(directory)!r}\n"
    subprocess.run([PYTHON, "-c", begin + code], check=True)
    return directory


def staged(tmp_path, source, *more):
    """Where a source is after staging."""
    return Path(
        run("stage", "--source", source, "--to", tmp_path / "local", "--name", "set", "--json", *more).done()[
            "path"
        ]
    )


def read(example, where, *arguments, count=2, **more):
    """What the ranks of an example print, as one list of words a rank."""
    found = []
    for rank in range(count):
        ranks = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": count}
        environment = {**os.environ, **{key: str(value) for key, value in {**ranks, **more}.items()}}
        environment |= {"PYTHONPATH": str(HELPER), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        done = subprocess.run(
            [PYTHON, EXAMPLES / example, where, *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    return found


def once(found):
    """Every sample was read by one rank, and each rank has its part."""
    samples = [[word for word in words if word in NAMES] for words in found]
    assert sorted(itertools.chain(*samples)) == NAMES
    assert all(len(part) == len(NAMES) // len(samples) for part in samples)


def test_pack(tmp_path):
    needs("torch")
    for name in NAMES:
        (tmp_path / "source").mkdir(exist_ok=True)
        (tmp_path / "source" / name).write_text(name * 10)
    once(read("pack.py", staged(tmp_path, tmp_path / "source", "--strategy", "pack") / "set.tar"))


def shards(directory):
    """Eight tar files of four samples each."""
    directory.mkdir()
    for number in range(8):
        with tarfile.open(directory / f"shard-{number}.tar", "w") as archive:
            for name in NAMES[4 * number : 4 * number + 4]:
                entry = tarfile.TarInfo(f"{name}.txt")
                entry.size = len(name)
                archive.addfile(entry, io.BytesIO(name.encode()))
    return directory


@pytest.mark.parametrize("start", [(), ("--job", "7", "--start", "1 file")], ids=["complete", "early"])
def test_webdataset(tmp_path, start):
    needs("torch", "webdataset")
    where = staged(tmp_path, shards(tmp_path / "source"), *start)
    once(read("shards.py", tmp_path / "local" / ".early-7" / "set" / "data" if start else where))


def test_mosaic(tmp_path):
    needs("torch", "streaming")
    source = make(
        "from streaming import MDSWriter\n"
        "with MDSWriter(out=directory + '/mds', columns={'name': 'str'}, size_limit=200) as out:\n"
        "    for name in names: out.write({'name': name})",
        tmp_path / "source",
    )
    once(read("mosaic.py", staged(tmp_path, source / "mds"), count=1))


def test_hdf5(tmp_path):
    needs("torch", "h5py")
    source = make(
        "import h5py, numpy\nwith h5py.File(directory + '/images.h5', 'w') as file:\n"
        "    file['images'] = numpy.arange(32 * 6).reshape(32, 6)",
        tmp_path / "source",
    )
    found = read("hdf5.py", staged(tmp_path, source) / "images.h5")
    numbers = [[int(word) for word in words if word.isdigit()] for words in found]
    assert sorted(itertools.chain(*numbers)) == list(range(32))


def test_lmdb(tmp_path):
    needs("torch", "lmdb")
    source = make(
        "import lmdb\nwith lmdb.open(directory, map_size=1 << 24) as opened, opened.begin(write=True) as writing:\n"
        "    for name in names: writing.put(name.encode(), name.encode() * 9)",
        tmp_path / "source",
    )
    where = staged(tmp_path, source)
    once(read("lmdb_records.py", where))
    assert run("verify", "--to", tmp_path / "local", "--name", "set").status == 0


def test_parquet_of_two_nodes(tmp_path):
    needs("torch", "pyarrow")
    source = make(
        "import pyarrow as pa, pyarrow.parquet as pq\nfor n in range(4):\n"
        "    pq.write_table(pa.table({'name': names[8 * n:8 * n + 8]}), f'{directory}/{n}.parquet', row_group_size=2)",
        tmp_path / "source",
    )
    found = []
    for node in range(2):
        where = staged(tmp_path / str(node), source, "--strategy", "shard", "--shard", f"{node}/2")
        found += read("parquet.py", where)
    once(found)


RECORDS = (
    "from tfrecord.writer import TFRecordWriter\nfor n in range(8):\n    out = TFRecordWriter(f'{directory}/{n}.tfrecord')\n"
    "    for name in names[4 * n:4 * n + 4]: out.write({'name': (name.encode(), 'byte')})\n    out.close()"
)


def test_tfrecord(tmp_path):
    needs("tfrecord")
    once(read("tfrecords.py", staged(tmp_path, make(RECORDS, tmp_path / "source"))))


@pytest.mark.parametrize("example", ["shards.py", "tfrecords.py"])
def test_ranks_divide_the_files_of_their_node_where_it_has_its_own(tmp_path, example):
    """Two nodes of two ranks: each sample is read once, which a division among all ranks would not do."""
    needs(*(("torch", "webdataset") if example == "shards.py" else ("tfrecord",)))
    place = tmp_path / "source"
    source = shards(place) if example == "shards.py" else make(RECORDS, place)
    found = []
    for node in range(2):
        where = staged(tmp_path / str(node), source, "--strategy", "shard", "--shard", f"{node}/2")
        for rank in range(2):
            ranks = {"RANK": 2 * node + rank, "WORLD_SIZE": 4, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2}
            found += read(example, where, "shard", count=1, **ranks)
    once(found)
