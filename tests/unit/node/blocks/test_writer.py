"""Writing past the page cache, and through it where that cannot be."""

import errno
import mmap
import os

import pytest
from dlrun.node.blocks.blocks import Blocks
from dlrun.node.source import survey
from dlrun.node.source.manifest import CHUNK
from dlrun.node.source.selection import Options, parse
from dlrun.node.store.layout import FileLayout


@pytest.mark.parametrize("shift", [0, 1], ids=["on a page", "between pages"])
@pytest.mark.parametrize("sync", [False, True])
def test_a_large_file_is_written_whatever_its_end_and_its_buffer(tmp_path, shift, sync):
    """Past the page cache only whole pages can be written, and only from the beginning of one."""
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    copy.mkdir()
    content = os.urandom(CHUNK + 3 * mmap.PAGESIZE + 17)
    (source / "large").write_bytes(content)
    manifest, _ = survey.survey(parse(str(source)), Options())
    blocks = Blocks(manifest)
    layout = FileLayout(os.open(copy, os.O_RDONLY), manifest, blocks)
    layout.begin()
    writer = layout.writer(sync)
    for block in reversed(list(blocks)):
        buffer = memoryview(mmap.mmap(-1, CHUNK + 1))[shift : shift + block.length]
        buffer[:] = content[block.offset : block.offset + block.length]
        writer.write(block, buffer)
    writer.close()
    assert (copy / "large").read_bytes() == content


def test_a_file_system_that_cannot_write_past_its_cache_is_written_through_it(tmp_path, monkeypatch):
    real = os.open

    def refused(name, flags, *arguments, **options):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "not here")
        return real(name, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", refused)
    test_a_large_file_is_written_whatever_its_end_and_its_buffer(tmp_path, 0, False)
