"""The manifest: what is packed comes back, and what is damaged or unsafe is not believed."""

import os
import random

import pytest
from dlrun.node.blocks.blocks import MAX_FILES, MAX_GROUP, Blocks, is_chunk
from dlrun.node.common.errors import Damaged
from dlrun.node.source import manifest as manifests
from dlrun.node.source.manifest import CHUNK, FILE, HARD, LINK, Manifest, pieces
from hypothesis import given, settings, strategies as st

from tests.examples import examples

leaves = (
    st.binary(min_size=1, max_size=12)
    .map(lambda b: b.translate(None, b"/\0"))
    .filter(lambda b: b not in (b"", b".", b".."))
)
sizes = st.one_of(
    st.integers(0, 70_000),
    st.integers(0, 3 * CHUNK),
    st.sampled_from([0, 1, MAX_GROUP, MAX_GROUP + 1, CHUNK, CHUNK + 1]),
)


def add(made, parent, name, kind=FILE, size=0, mode=0o644, mtime=5):
    """One more entry of a manifest."""
    made.names.append(name)
    made.kinds.append(kind)
    made.parents.append(parent)
    made.modes.append(mode)
    made.sizes.append(size)
    made.mtimes.append(mtime)


def small(*dirs):
    """A manifest of directories."""
    made = Manifest()
    made.dirs = [b"", *sorted(dirs)]
    made.dir_modes.extend([0o755] * len(made.dirs))
    made.dir_mtimes.extend([7] * len(made.dirs))
    return made


@st.composite
def manifest_like(draw):
    made = small(*draw(st.sets(leaves, max_size=4)))
    taken = set(made.dirs)
    for parent in range(len(made.dirs)):
        for name in sorted(draw(st.sets(leaves, max_size=80 if parent == 0 else 5)) - taken):
            kind = draw(st.sampled_from([FILE, FILE, FILE, LINK, HARD]))
            files = [i for i, k in enumerate(made.kinds) if k == FILE]
            if kind == HARD and not files:
                kind = FILE
            if kind == LINK:
                made.links.append(draw(st.binary(min_size=1, max_size=9)).replace(b"\0", b"/"))
            if kind == HARD:
                made.hard.append(draw(st.sampled_from(files)))
            add(
                made,
                parent,
                name,
                kind,
                draw(sizes) if kind == FILE else 0,
                draw(st.integers(0, 0o777)),
                draw(st.integers(-10, 2**62)),
            )
    return made


@settings(max_examples=examples(60))
@given(manifest_like())
def test_what_is_packed_comes_back(made):
    made.digest_size = 2
    made.digests = os.urandom(
        2 * sum(pieces(s) for s, k in zip(made.sizes, made.kinds, strict=True) if k == FILE)
    )
    made.info = {"source": {"root": "/x"}}
    found = manifests.unpack(made.pack())
    for column in (
        "dirs",
        "names",
        "kinds",
        "links",
        "xattrs",
        "digests",
        "info",
        "parents",
        "modes",
        "sizes",
        "mtimes",
        "hard",
    ):
        assert getattr(found, column) == getattr(made, column)
    assert found.id() == made.id()


@settings(max_examples=examples(60))
@given(manifest_like())
def test_blocks_hold_every_byte_of_every_file_once(made):
    blocks = Blocks(made)
    covered = {}
    for block in blocks:
        assert block.length <= CHUNK
        if is_chunk(block, made) or made.sizes[block.first] > MAX_GROUP:
            assert block.file_count == 1
            covered.setdefault(block.first, []).append((block.offset, block.length))
        else:
            assert block.file_count <= MAX_FILES
            assert block.length == sum(made.sizes[block.first : block.first + block.file_count]) <= MAX_GROUP
            for entry in range(block.first, block.first + block.file_count):
                covered.setdefault(entry, []).append((0, made.sizes[entry]))
    assert sorted(covered) == [i for i, kind in enumerate(made.kinds) if kind == FILE]
    for entry, spans in covered.items():
        place = 0
        for offset, length in spans:
            assert offset == place
            place += length
        assert place == made.sizes[entry]
        assert len(spans) == pieces(made.sizes[entry])
        assert (entry in blocks.large) == (made.sizes[entry] > CHUNK)


@pytest.mark.parametrize("largest", [CHUNK, CHUNK + 1])
def test_each_file_has_its_own_hashes(largest):
    made = small()
    for number, (kind, size) in enumerate([(FILE, 0), (LINK, 0), (FILE, largest), (HARD, 0), (FILE, 7)]):
        add(made, 0, b"%d" % number, kind, size)
    assert made.hashes() == {}, "none are known yet"
    made.digest_size, made.digests = 2, b"aabbccdd"[: 2 * (2 + pieces(largest))]
    last = made.digests[-2:]
    assert made.hashes() == {0: b"aa", 2: made.digests[2:-2], 4: last}


def test_a_flipped_bit_or_a_missing_end_is_noticed():
    made = small(b"d")
    for number in range(20):
        add(made, number % 2, b"f%03d" % number) if number % 2 == 0 else None
    for number in range(20):
        add(made, 1, b"g%03d" % number, size=number)
    blob = made.pack()
    noise = random.Random(7)
    for _ in range(300):
        place = noise.randrange(len(blob) - len(made.digests))
        broken = bytearray(blob)
        broken[place] ^= 1 << noise.randrange(8)
        try:
            found = manifests.unpack(bytes(broken))
        except Damaged:
            continue
        assert found.id() == made.id(), "only what is not part of the tree may change unnoticed"
    for end in range(0, len(blob), 17):
        with pytest.raises(Damaged):
            manifests.unpack(blob[:end])


def corrupted(change):
    made = small(b"d")
    add(made, 0, b"a", size=10)
    add(made, 0, b"l", LINK)
    made.links.append(b"a")
    add(made, 1, b"b", size=10)
    add(made, 1, b"h", HARD)
    made.hard.append(0)
    manifests.check(made)
    change(made)
    return made


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.names.__setitem__(0, b".."),
        lambda m: m.names.__setitem__(0, b"."),
        lambda m: m.names.__setitem__(0, b""),
        lambda m: m.names.__setitem__(0, b"/etc/passwd"),
        lambda m: m.names.__setitem__(0, b"x/../../y"),
        lambda m: m.names.__setitem__(0, b"d"),
        lambda m: m.names.__setitem__(0, b"l"),
        lambda m: m.dirs.__setitem__(1, b".."),
        lambda m: m.dirs.__setitem__(1, b"/d"),
        lambda m: m.dirs.__setitem__(1, b"missing/d"),
        lambda m: m.dirs.__setitem__(1, b"d/../.."),
        lambda m: m.dirs.__setitem__(0, b"top"),
        lambda m: m.modes.__setitem__(0, 0o4755),
        lambda m: m.modes.__setitem__(0, 0o1777),
        lambda m: m.dir_modes.__setitem__(1, 0o2755),
        lambda m: m.sizes.__setitem__(0, -1),
        lambda m: m.kinds.__setitem__(0, ord("c")),
        lambda m: m.parents.__setitem__(3, 9),
        lambda m: m.hard.__setitem__(0, 1),
        lambda m: m.hard.__setitem__(0, 3),
        lambda m: m.hard.__setitem__(0, 99),
        lambda m: m.links.append(b"more"),
        lambda m: m.sparse.append(99),
        lambda m: m.xattrs.append((99, b"user.a", b"b")),
        lambda m: m.mtimes.append(1),
        lambda m: m.order.append(0),
        lambda m: m.order.extend([0, 0]),
        lambda m: m.order.extend([2, 0, 1]),
        lambda m: m.order.extend([2, 99]),
    ],
)
def test_what_could_lead_a_write_astray_is_refused(change):
    made = corrupted(change)
    with pytest.raises(Damaged):
        manifests.unpack(made.pack())
