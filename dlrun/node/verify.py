"""Read a copy back and compare it with its manifest's hashes."""

from typing import List

from . import text
from .blocks import Blocks
from .errors import Damaged, SourceFault
from .form import Form
from .hashing import Hasher
from .manifest import Manifest
from .parcel import SLACK, Pool
from .resume import split


def verify(form: Form, manifest: Manifest, blocks: Blocks, hasher: Hasher) -> None:
    """Damaged, naming the files, when one is missing, has another size or time, or another hash."""
    digests = split(manifest, blocks, hasher.size)
    reader = form.reader(hasher)
    view = Pool(1).take()
    wrong: List[bytes] = []
    for number, block in enumerate(blocks):
        try:
            good = reader.read(block, view[: block.length + SLACK]) == digests[number]
        except SourceFault:
            good = False
        if not good:
            wrong.append(manifest.path(block.first))
    reader.close()
    if wrong:
        message = "the copy differs from its manifest in blocks that begin with {}".format(text.some(wrong))
        raise Damaged(message)
