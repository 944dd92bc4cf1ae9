"""What a new version of a data set shares with an earlier one: by name and status, by inode, and by content.

A file is unchanged if path, size, times and mode are; a renamed one also keeps its inode. The change time (ctime) proves
both, since no program can set it. Where it differs but size and time do not (a file was renamed, or given another link or
owner) the content may be the same, which only its hash proves.
"""

from array import array
from itertools import compress, filterfalse
from operator import ne
from typing import Any, Callable, Container, Dict, Iterable, List, Optional, Tuple

from .manifest import FILE, Manifest

TRIES = 16  # files whose content is compared at least before most of them are found to have changed


def has_same_names(old: Manifest, new: Manifest) -> bool:
    """Whether nothing was added, removed or renamed: entries of both versions have the same numbers."""
    return (old.dirs, old.parents, old.names) == (new.dirs, new.parents, new.names)


def unchanged(old: Manifest, new: Manifest) -> Dict[int, int]:
    """File of the new manifest -> file of the old one that has its content, size, modification time and mode."""
    # Extended attributes are rare: such sets are copied again instead of comparing them.
    if (old.xattrs or new.xattrs) and old.id() != new.id():
        return {}
    compares_ctimes = bool(old.ctimes and new.ctimes)
    columns, kinds = (_states(old, compares_ctimes), _states(new, compares_ctimes)), new.kinds
    if has_same_names(old, new):  # entries have their numbers, and no name needs to be looked up
        files = list(new.of_kind(FILE))
        pairs = dict(zip(files, files))
        for before, now in zip(*columns):
            for entry in compress(range(len(kinds)), map(ne, before, now)) if before != now else ():
                pairs.pop(entry, None)
    else:
        # By directory and name instead of by path: joining millions of paths takes longer than comparing them.
        numbers = {path: number for number, path in enumerate(new.dirs)}
        known = [numbers.get(path, -1) for path in old.dirs]
        before_it = zip([known[parent] for parent in old.parents], old.names, *columns[0])
        places = {key: entry for entry, key in enumerate(before_it)}
        keys = enumerate(zip(new.parents, new.names, *columns[1]))
        pairs = {entry: places[key] for entry, key in keys if kinds[entry] == FILE and key in places}
    if compares_ctimes and len(pairs) < new.files():
        pairs.update(_same_inodes(old, new, pairs, lambda m, e: (*_status(m, e), m.inodes[e], m.ctimes[e])))
    return pairs


def _states(manifest: Manifest, ctimes: bool) -> List[Any]:
    """The columns in which an unchanged entry has equal values in both versions."""
    columns: List[Any] = [manifest.kinds, manifest.sizes, manifest.mtimes, manifest.modes]
    return columns + ([manifest.ctimes] if ctimes else [])


def candidates(old: Manifest, new: Manifest, known: Container[int], touched: bool) -> Dict[int, int]:
    """File of the new manifest -> file of the old one whose content it may have, of files that are not `known`.

    These are renamed files, and with `touched` those that only have another time.
    """
    pairs: Dict[int, int] = {}
    if touched:
        places = {(old.path(e), old.sizes[e]): e for e, kind in enumerate(old.kinds) if kind == FILE}
        for entry, kind in enumerate(new.kinds):
            if kind == FILE and entry not in known:
                before = places.get((new.path(entry), new.sizes[entry]))
                if before is not None:
                    pairs[entry] = before
    moved = _same_inodes(old, new, known, lambda m, e: (m.sizes[e], m.mtimes[e], m.inodes[e]))
    pairs.update(moved)
    return pairs


def _same_inodes(
    old: Manifest, new: Manifest, known: Container[int], key: Callable[[Manifest, int], Tuple[int, ...]]
) -> Dict[int, int]:
    if not (old.inodes and new.inodes):
        return {}
    entries = list(filterfalse(known.__contains__, new.of_kind(FILE)))
    # Few files have changed, mostly: keys are made of those of the old ones only that have an inode of theirs.
    inodes = {new.inodes[e] for e in entries}
    there = compress(range(len(old.inodes)), map(inodes.__contains__, old.inodes))
    places = {key(old, e): e for e in there if old.kinds[e] == FILE}
    keys = ((e, key(new, e)) for e in entries)
    return {entry: places[wanted] for entry, wanted in keys if wanted in places}


def _status(manifest: Manifest, entry: int) -> Tuple[int, int, int]:
    return manifest.sizes[entry], manifest.mtimes[entry], manifest.modes[entry]


def proved(
    old: Manifest, pairs: Dict[int, int], hashes_of: Callable[[int], Optional[bytes]]
) -> Dict[int, bytes]:
    """Of `candidates`, the files that have the content of the old one, with their hashes.

    hashes_of(entry): the hashes of a file of the new version as it is now, or None if it cannot be read. Ends once more
    than half of the files have changed: then reading the others first would only cost time.
    """
    wanted = old.hashes() if pairs else {}
    confirmed: Dict[int, bytes] = {}
    for number, (entry, before) in enumerate(sorted(pairs.items())):
        if number >= TRIES and 2 * len(confirmed) < number:
            break
        hashes = hashes_of(entry)
        if hashes is not None and hashes == wanted[before]:
            confirmed[entry] = hashes
    return confirmed


def cuts(new: Manifest, reused: Container[int]) -> "array[int]":
    """The value of `Manifest.cuts` with which no block has both reused files and others."""
    kinds, are_reused = new.kinds, list(map(reused.__contains__, range(len(new.kinds))))
    ends = compress(range(1, len(kinds)), map(ne, are_reused, are_reused[1:]))
    # Links have no block, and end one: the next file begins a block anyway.
    return array("I", [entry for entry in ends if kinds[entry - 1] == kinds[entry] == FILE])


def by_content(old: Manifest, new: Manifest, entries: Iterable[int]) -> Dict[int, int]:
    """File of the new manifest -> file of the old one with the same hashes, for those of `entries` that are `new.known`.

    That of the same path is preferred: equal files stay files of their own, instead of names of one file.
    """
    known = new.known
    wanted = [entry for entry in entries if entry in known]
    hashes = old.hashes() if wanted else {}
    places = {file_hashes: entry for entry, file_hashes in hashes.items()}
    paths = {(old.path(entry), file_hashes): entry for entry, file_hashes in hashes.items()}
    pairs = {
        entry: paths.get((new.path(entry), known[entry]), places.get(known[entry], -1)) for entry in wanted
    }
    return {entry: place for entry, place in pairs.items() if place >= 0}
