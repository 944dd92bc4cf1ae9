"""One node: a large file, many small ones, a slow source, a set that is already staged, and random reads of staged data."""

import contextlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time

from .bench import PEERS, installed, table

SLOW = ((500, 300), (2000, 1000))  # microseconds of a metadata call and of a read
JOB = "bench"  # that the staged sets are for
SLOW_WIDTH = 16  # processes or transfers of the peers at a slow source


def large(bench):
    """One large file."""
    size = int(4e9 * bench.given.scale) >> 20 << 20
    source = bench.file("one", size)
    copy = bench.target / "copy"
    dd = ["dd", f"if={source}/large", f"of={copy}", "bs=4M", "conv=fdatasync", "status=none"]
    more = {"dd": dd, "dd direct": [*dd, "oflag=direct"]}
    if installed("fio"):
        more["fio writes only"] = [
            "fio", "--name=limit", f"--filename={copy}", f"--size={size}", "--rw=write", "--bs=4M",
            "--ioengine=libaio", "--iodepth=4", "--direct=1", "--end_fsync=1",
        ]  # fmt: skip

    title = f"large: one file of {size / 1e9:.1f} GB"
    bench.turns(title, bench.ways(source, more=more), lambda: bench.warm(source, size))
    shutil.rmtree(source)


def small(bench):
    """Many small files."""
    count = int(50_000 * bench.given.scale)
    _crowd(bench, bench.tree("many", count, 33_000), count * 33_000, f"small: {count:,} files of 33 KB")


def tiny(bench):
    """A large number of tiny files."""
    count = int(200_000 * bench.given.scale)
    source = bench.tree("tiny", count, 4_000)
    _crowd(bench, source, count * 8_000, f"tiny: {count:,} files of 4 KB")
    shutil.rmtree(source)


def _crowd(bench, source, size, title):
    copies = bench.built("copies")
    plain = [copies, source, bench.target / "copy", "2"]
    more = {"C two processes": plain, "C with promises": [*plain, "promises"]} if copies else {}
    bench.turns(title, bench.ways(source, more=more), lambda: bench.warm(source, size))


def slow(bench):
    """Small files of a source with a slow metadata server, in many directories: since FUSE looks up one name per directory."""
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "fuse3"], check=False, capture_output=True, text=True
    )
    program = bench.built("slow", *flags.stdout.split())
    if program is None:
        return
    count = int(5_000 * bench.given.scale)
    source, view = bench.tree("behind", count, 33_000, 50), bench.root / "view"
    view.mkdir(exist_ok=True)
    wide = (
        f'mkdir "$2" && cd "$1" && find . -type d -exec mkdir -p "$2/{{}}" \\; && find . -type f -print0 | \
xargs -0 -P {SLOW_WIDTH} -n 32 cp --parents -t "$2"'
    )
    more = {"xargs cp": ["sh", "-c", wide, "sh", view, bench.target / "copy"]}
    for metadata, read in SLOW:
        mounted, calls = View(program, source, view, bench.root / "calls"), {}

        def again(mounted=mounted, delays=(metadata, read)):
            bench.warm(source, count * 66_000)
            mounted.begin(*delays)

        def seen(name, mounted=mounted, calls=calls):
            calls[name] = mounted.end()

        title = (
            f"slow: {count:,} files of 33 KB, {metadata / 1000} ms a metadata call, {read / 1000} ms a read"
        )
        try:
            bench.turns(title, bench.ways(view, SLOW_WIDTH, more), again, seen)
        finally:
            mounted.end()
        print("\ncalls for a file: lookups, opens, reads\n")
        for name, numbers in calls.items():
            print(f"- {name}: " + ", ".join(f"{number / count:.2f}" for number in numbers[:3]))


class View:
    """A source seen through slow.c; its processes end with their mounts."""

    def __init__(self, program, source, path, counted):
        self._program, self._source, self._path, self._counted = program, source, path, counted
        self._process = None

    def begin(self, metadata, read):
        """Mount it with delays in microseconds; all counters are zero."""
        words = [self._program, self._source, metadata, read, self._path]
        environment = {**os.environ, "SLOW_CALLS": str(self._counted)}
        self._process = subprocess.Popen([str(word) for word in words], env=environment)
        while not os.path.ismount(self._path):
            if self._process.poll() is not None:
                raise SystemExit(f"slow.c ended with {self._process.returncode} before it was mounted")
            time.sleep(0.01)

    def end(self):
        """Unmount it; returns the numbers of lookups, opens, reads and lists."""
        subprocess.run(["fusermount3", "-q", "-uz", self._path], check=False)
        if self._process is None:
            return []
        self._process.kill()  # it would continue if another mount namespace has a copy of its mount
        self._process.wait()
        self._process = None
        return struct.unpack("4l", self._counted.read_bytes())


def warm(bench):
    """Recognise a set that is already staged."""
    count = int(50_000 * bench.given.scale)
    source = bench.tree("many", count, 33_000)
    bench.fresh()
    subprocess.run(bench.stage(source), check=True, stdout=subprocess.DEVNULL)
    inside, whole = [], []
    for _ in range(5):
        began = time.perf_counter()
        done = subprocess.run(bench.stage(source), check=True, capture_output=True, text=True)
        whole.append(time.perf_counter() - began)
        last = json.loads(done.stdout.splitlines()[-1])
        assert last["how"] == "warm"
        inside.append(last["seconds"])
    print(
        f"\nwarm: {count:,} files recognised in {min(inside):.3f} s; with the start of Python {min(whole):.3f} s"
    )


def delta(bench):
    """The next version of a set of which one file in a hundred was rewritten."""
    count = int(20_000 * bench.given.scale)
    source, copy = bench.tree("changing", count, 8_000, 200), bench.target / "copy"
    files = sorted(path for path in source.rglob("*") if path.is_file())
    bench.fresh()
    ways = {"dlrun": bench.stage(source)}
    if installed("rsync"):
        ways["rsync -a, in place"] = ["rsync", "-a", f"{source}/", f"{copy}/"]
    if installed("rclone"):
        again = str(bench.target / "copy by rclone")
        ways["rclone copy, in place"] = [
            word.format(source=source, target=again, width=2) for word in PEERS["rclone"]
        ]
    for words in ways.values():
        bench.timed(words)
    rounds = []
    for _ in range(bench.given.rounds):
        for path in random.sample(files, count // 100):
            path.write_bytes(os.urandom(8_000))
        os.sync()
        rounds.append({name: bench.timed(ways[name]) for name in random.sample(sorted(ways), len(ways))})
    table(f"delta: {count:,} files of 8 KB, 1 % of them rewritten", rounds)
    bench.fresh()


def reads(bench):
    """Random reads of files, of a pack, of a mounted image and of LMDB."""
    count = int(50_000 * bench.given.scale)
    source = bench.tree("many", count, 33_000)
    bench.fresh()
    imaged = installed("mksquashfs") and installed("squashfuse")
    for name, strategy in (("set", "copy"), ("packed", "pack"), *([("imaged", "image")] if imaged else [])):
        words = [
            "stage",
            "--source",
            source,
            "--to",
            bench.target / "local",
            "--name",
            name,
            "--strategy",
            strategy,
            "--job",
            JOB,
        ]
        subprocess.run(bench.node(*words, "--quiet"), check=True, stdout=subprocess.DEVNULL)
    local = bench.target / "local"
    order = [random.randrange(count) for _ in range(count)]
    keys = [f"d{n // 1000}/f{n}".encode() for n in order]
    print("\nreads: one thread, 33 KB each, in random order\n")
    print("| staged as | from memory, a second | from the disk, a second |\n|---|---|---|")
    for title, opener in (("files", _files), ("pack", _pack), ("image", _image), ("LMDB", _lmdb)):
        reader = opener(bench, count)
        if reader is None:
            print(f"| {title} | not installed | |")
            continue
        _rate(reader, keys)
        from_memory = _rate(reader, keys)
        reader = None
        os.sync()
        drop_caches()
        from_disk = _rate(opener(bench, count), keys[: max(1, count // 10)])
        print(f"| {title} | {from_memory:,.0f} | {from_disk:,.0f} |", flush=True)
    subprocess.run(bench.node("clean", "--to", local, "--job", JOB), check=True, stdout=subprocess.DEVNULL)
    bench.fresh()


def drop_caches():
    """Drop the page cache, if allowed; otherwise the rate is that of memory, not of the disk."""
    with contextlib.suppress(OSError), open("/proc/sys/vm/drop_caches", "w") as file:  # noqa: PTH123
        file.write("3\n")


def _rate(reader, keys):
    began = time.perf_counter()
    for key in keys:
        reader(key)
    return len(keys) / (time.perf_counter() - began)


def _files(bench, _count):
    return _below(bench.target / "local" / "set" / "data")


def _image(bench, _count):
    local = bench.target / "local"
    if not (local / "imaged").exists():
        return None
    words = bench.node("mount", "--to", local, "--name", "imaged", "--job", JOB)
    return _below(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())


def _below(directory):
    base = os.fsencode(directory) + b"/"

    def read(key):
        descriptor = os.open(base + key, os.O_RDONLY)
        data = os.read(descriptor, 1 << 20)
        os.close(descriptor)
        return data

    return read


def _pack(bench, _count):
    base = bench.target / "local" / "packed" / "data"
    index = {}
    for record in (base / "packed.tar.index").read_bytes().split(b"\0"):
        if record:
            offset, size, name = record.split(b" ", 2)
            index[name] = int(size), int(offset)
    packed = (base / "packed.tar").open("rb", buffering=0)
    os.posix_fadvise(packed.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
    return lambda key: os.pread(packed.fileno(), *index[key])


def _lmdb(bench, count):
    try:
        import lmdb  # noqa: PLC0415 - a peer that may not be here
    except ImportError:
        return None
    path = bench.target / "local" / "lmdb"
    if not path.exists():
        files = _files(bench, count)
        with lmdb.open(str(path), map_size=1 << 40) as made, made.begin(write=True) as put:
            for number in range(count):
                key = f"d{number // 1000}/f{number}".encode()
                put.put(key, files(key))
    opened = lmdb.open(str(path), map_size=1 << 40, readonly=True, lock=False, readahead=False)
    transaction = opened.begin()
    return lambda key, _kept=opened: transaction.get(key)


def hash_of(bench):
    """The hash function of this machine, for the head of the tables."""
    words = [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); from dlrun_node.blocks import hashing; \
print(hashing.hasher('auto').name)", bench.program]  # fmt: skip
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
