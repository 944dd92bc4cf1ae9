"""`tar xf ARCHIVE -C DIRECTORY` and `unzip ARCHIVE -d DIRECTORY`: commands that unpack a whole archive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dlrun.importing.words import Word

_TAR_FLAGS = re.compile(r"-?[xvzjJapf]+")
_TAR_LONG = re.compile(
    r"--(?:extract|get|verbose|gzip|bzip2|xz|zstd|auto-compress|preserve-permissions|no-same-owner)"
)
_DECOMPRESSORS = re.compile(r"zstd|pigz|unpigz|gzip|bzip2|lbzip2|pbzip2|xz|pixz")
_UNZIP_FLAGS = re.compile(r"-[qo]+")


@dataclass(frozen=True, slots=True)
class Unpacking:
    """What a command unpacks: the archive, and the directory."""

    archive: Word
    directory: Word


def unpacking(words: Sequence[Word]) -> Unpacking | None:
    """What the words of a command unpack as a whole; None for any other command, and if a word is not understood."""
    name = words[0].literal if words else None
    unpacked = _tar(words[1:]) if name == "tar" else _unzip(words[1:]) if name == "unzip" else None
    # `HOST:FILE` is on another machine, `-` the standard input; `tar` and `unzip` get a `~` after `=` as it is.
    if unpacked is not None and (":" in _text(unpacked.archive) or unpacked.archive.literal == "-"):
        return None
    return unpacked


def _tar(words: Sequence[Word]) -> Unpacking | None:
    """Only options that do not change what is written where: tar knows more than a hundred others."""
    archive = directory = None
    extracts, first, left = False, True, list(words)
    while left:
        word = left.pop(0)
        text, lead = word.literal, word.lead
        if lead.startswith("--file="):
            archive = word.after(len("--file="))
        elif lead.startswith("--directory="):
            if directory is not None:
                return None
            directory = word.after(len("--directory="))
        elif text in {"--file", "-f"} and left:
            archive = left.pop(0)
        elif text in {"-C", "--directory"} and left and directory is None:
            directory = left.pop(0)
        elif text in {"-I", "--use-compress-program"} and left:
            if not _DECOMPRESSORS.fullmatch(left.pop(0).literal or ""):
                return None
        elif text is not None and text.startswith("--use-compress-program="):
            if not _DECOMPRESSORS.fullmatch(text.partition("=")[2]):
                return None
        elif text is not None and _TAR_LONG.fullmatch(text):
            extracts |= text in {"--extract", "--get"}
        elif text is not None and _TAR_FLAGS.fullmatch(text) and (first or text.startswith("-")):
            extracts |= "x" in text
            if "f" in text:
                # In the old form, without `-`, arguments follow in the order of the letters: only `f` has one here.
                if (text.startswith("-") and not text.endswith("f")) or text.count("f") > 1 or not left:
                    return None
                archive = left.pop(0)
        else:
            return None
        first = False
    if not extracts or archive is None or directory is None:
        return None
    # Where a `~` would be taken for the home directory, which bash does only at the start of a word.
    if any(word.in_home and word not in words for word in (archive, directory)):
        return None
    return Unpacking(archive, directory)


def _unzip(words: Sequence[Word]) -> Unpacking | None:
    archive = directory = None
    left = list(words)
    while left:
        word = left.pop(0)
        if word.literal == "-d" and left and directory is None:
            directory = left.pop(0)
        elif word.literal is not None and _UNZIP_FLAGS.fullmatch(word.literal):
            continue
        elif word.lead.startswith("-") or archive is not None:
            return None
        else:
            archive = word
    # Without its suffix `unzip` looks for other names, too.
    if archive is None or directory is None or not _text(archive).endswith(".zip"):
        return None
    return Unpacking(archive, directory)


def _text(word: Word) -> str:
    return "".join(segment.text for segment in word.segments)
