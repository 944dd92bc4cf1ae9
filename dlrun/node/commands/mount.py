"""`mount`: mount a data set that is one SquashFS image, for the processes of a job on this node; `clean` unmounts it."""

import os
import sys
from typing import List

from ..common import mounts
from ..common.errors import NodeError, system_errors
from ..store import uses
from ..store.area import Area, missing, set_name
from .options import Parser, store_options

_WITHIN = 300.0  # seconds for another rank of the node to mount it


def main(argv: List[str]) -> None:
    """Run `mount`: print where the set is, which is mounted unless it is already. Raises NodeError if it cannot be."""
    parser = Parser("mount", "Mount a staged SquashFS image for the processes of a job.")
    store_options(parser)
    parser.add_argument("--name", required=True, help="of the data set")
    parser.add_argument(
        "--job", required=True, metavar="ID", help="the job that uses it, and whose `clean` unmounts it"
    )
    parser.add_argument(
        "--find", action="store_true", help="print where the image is, for a program that mounts it itself"
    )
    arguments = parser.parse_args(argv)
    area, name = Area(arguments.to, make=False), set_name(arguments.name)
    set_name(arguments.job)
    if arguments.find:
        sys.stdout.write(os.fsdecode(os.path.realpath(_image(area, name))) + "\n")
        return
    with system_errors("cannot mount `{}` on {}".format(arguments.name, os.uname().nodename)):
        place = os.path.realpath(uses.mount_point(area, name, arguments.job))
        lock = area.lock(b"@" + name, _WITHIN, lambda: None)
        try:
            image = _image(area, name)
            there = mounts.mounted_below(os.path.dirname(place)).get(place)
            if there is not None and (there != mounts.identity(image) or not mounts.is_served(place)):
                # The job was requeued on this node: what had served the mount was killed, or serves an earlier version.
                mounts.unmount(place)
                there = None
            if there is None:
                mounts.mount(image, place)
        finally:
            lock.close()
    sys.stdout.write(os.fsdecode(place) + "\n")


def _image(area: Area, name: bytes) -> bytes:
    """The only file of a set; raises NodeError if it is not an image."""
    directory = os.fsencode(area.data_path(name))
    if area.published(name) is None:
        raise missing(name.decode("ascii"), os.fsdecode(area.path))
    paths = [os.path.join(directory, entry) for entry in os.listdir(directory)]
    if len(paths) != 1 or not mounts.is_image(paths[0]):
        raise NodeError(
            "`{}` is not a SquashFS image".format(os.fsdecode(paths[0] if len(paths) == 1 else directory)),
            "with `strategy: image` the source is a directory, or one file that `mksquashfs` has made",
        )
    return paths[0]
