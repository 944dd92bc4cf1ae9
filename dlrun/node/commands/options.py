"""The arguments of the commands. Those of `stage` are the same on all nodes of a job, except --index."""

import argparse
import functools
import re
from typing import List, NoReturn, Tuple

from ..common.errors import Usage
from ..relay.shapes import SHAPES
from ..source.recheck import CHECKS
from ..source.selection import SCHEMES, scheme
from ..source.subset import BALANCES
from ..store.early import StartCondition

_UNITS = {"": 1}
for _power, _unit in enumerate("kmgtp", 1):
    _UNITS.update({_unit: 1000**_power, _unit + "i": 1024**_power})
_SPANS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _quantity(argument: str, units: "dict[str, int]", pattern: str, kind: str) -> float:
    match = re.match(pattern, argument.strip().lower())
    if not match:
        raise Usage("`{}` is not {}".format(argument, kind))
    return float(match.group(1)) * units[match.group(2)]


def start_condition(argument: str) -> StartCondition:
    """The --start condition of `10%`, `8 files` or `20GB`; raises Usage for anything else."""
    words = argument.strip().lower()
    part = re.match(r"([0-9]+(?:\.[0-9]+)?) *%\Z", words)
    files = re.match(r"([0-9]+) *files?\Z", words)
    if part:
        condition = StartCondition(fraction=float(part.group(1)) / 100)
    else:
        condition = StartCondition(files=int(files.group(1))) if files else StartCondition(size=size(words))
    if condition.fraction > 1 or not (condition.fraction or condition.files or condition.size):
        raise Usage("--start is `{}`: it must be more than zero, and at most 100%".format(argument))
    return condition


def size(argument: str) -> int:
    """Bytes of `500M`, `2.5GB`, `2GiB`, `1000`; `G` is 10⁹ and `Gi` is 2³⁰, as in a spec."""
    return int(
        _quantity(argument, _UNITS, r"([0-9]+(?:\.[0-9]+)?) *([kmgtp]?i?)b?\Z", "a size like 500M or 2GB")
    )


def duration(argument: str) -> float:
    """Seconds of `90`, `90s`, `15m`, `4h`, `1d`; raises Usage for anything else."""
    return _quantity(argument, _SPANS, r"([0-9]+(?:\.[0-9]+)?)([smhd]?)\Z", "a time like 90s, 15m or 4h")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises Usage instead of exiting, and accepts no abbreviated options."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(
            prog="node.pyz " + command,
            description=description,
            allow_abbrev=False,
            # argparse makes a formatter for each option, and imports `shutil` for the width of the first one without.
            formatter_class=functools.partial(argparse.HelpFormatter, width=80),
        )

    def format_help(self) -> str:
        """The help, as wide as the terminal."""
        self.formatter_class = argparse.HelpFormatter
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise Usage where argparse would end the process."""
        problem = "invalid arguments: {}".format(message)
        raise Usage(problem, "`{} --help` lists the arguments".format(self.prog))


def store_options(parser: Parser) -> None:
    """Add the staging directory and its permissions."""
    parser.add_argument(
        "--to",
        required=True,
        metavar="DIR",
        help="staging directory on every node, owned by you with mode 0700",
    )
    parser.add_argument(
        "--shared", action="store_true", help="allow other users of the node to read the data sets"
    )


def report_options(parser: Parser) -> None:
    """Add the format and the interval of reports."""
    parser.add_argument("--json", action="store_true", help="JSON lines on stdout instead of text")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument(
        "--interval", type=duration, default=10.0, metavar="TIME", help="interval of progress lines (10s)"
    )


def file_options(parser: Parser) -> None:
    """Add the file filters, and the treatment of special files and attributes."""
    parser.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="GLOB",
        help="only files that match; may be repeated",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="GLOB",
        help="exclude files that match; may be repeated",
    )
    parser.add_argument(
        "--skip-special", action="store_true", help="skip devices and pipes, strip setuid bits"
    )
    parser.add_argument("--no-xattrs", action="store_true", help="do not copy extended attributes")


def effort_options(parser: Parser) -> None:
    """Add the hash function, and the limits on processes, bandwidth and priority."""
    parser.add_argument(
        "--hash",
        default="auto",
        help="auto (xxh3 where xxHash is installed, else sha1), xxh3, sha1, sha256, crc32, none",
    )
    parser.add_argument(
        "--workers",
        "--lanes",
        type=int,
        default=0,
        dest="worker_count",
        metavar="N",
        help="number of worker processes (default: one per core, at most 4)",
    )
    parser.add_argument("--rate", type=size, default=0, metavar="SIZE", help="read at most SIZE a second")
    parser.add_argument(
        "--low-priority", action="store_true", help="copy with the lowest CPU and I/O priority"
    )


def _header(argument: str) -> "Tuple[str, str]":
    header, _, name = argument.partition("=")
    if not re.match(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z", header) or not re.match(
        r"[A-Za-z_][A-Za-z0-9_]*\Z", name
    ):
        raise Usage("--header-from takes HEADER=NAME", "such as Authorization=DATA_TOKEN")
    return header, name


def source_options(parser: Parser) -> None:
    """Add the source, the name and the file options."""
    parser.add_argument(
        "--source",
        required=True,
        metavar="PATH",
        help="directory, file, glob, or a URL: s3://, http://, https://",
    )
    parser.add_argument(
        "--url-from",
        default="",
        metavar="NAME",
        help="environment variable with the whole, presigned URL of --source",
    )
    parser.add_argument(
        "--header-from",
        action="append",
        default=[],
        type=_header,
        metavar="HEADER=NAME",
        help="HTTP header whose value is in this environment variable; may be repeated",
    )
    parser.add_argument(
        "--checksums",
        default="",
        metavar="FILE",
        help="compare the copy with these checksums: a file as sha256sum writes it (absolute, or in the data set), or "
        "sha256:HASH of the only file",
    )
    parser.add_argument(
        "--version",
        default="",
        metavar="sha256:HASH",
        help="require this digest of all files; `compute` only reports it",
    )
    parser.add_argument(
        "--unpack",
        action="store_true",
        help="the source is one archive (tar, also with gzip, bzip2, xz or zstd; zip): its content is the data set",
    )
    parser.add_argument("--name", required=True, help="of the data set: DIR/NAME/data")
    file_options(parser)
    parser.add_argument("--links", choices=("keep", "follow"), default="keep", help="symbolic links (keep)")


def strategy_options(parser: Parser) -> None:
    """Add the strategy (copy, shard, pack, image, part) and its limits."""
    parser.add_argument(
        "--strategy", choices=("copy", "shard", "pack", "image", "part"), default="copy",
        help="copy all files to every node, one shard to each node, one indexed tar file, one SquashFS image, or what fits and "
        "links to the rest (copy)",
    )  # fmt: skip
    parser.add_argument(
        "--shard", metavar="K/N", help="with strategy shard and no --hosts: part K, from 0, of N"
    )
    parser.add_argument(
        "--expect",
        type=size,
        metavar="SIZE",
        help="expected size; a source that differs by more than 10 %% is rejected",
    )
    parser.add_argument(
        "--room",
        type=size,
        metavar="SIZE",
        help="with strategy part: space that the set may take on a node (default: free space minus 5 %% of the disk)",
    )
    parser.add_argument(
        "--else-in-place",
        metavar="FILE",
        help="if the set does not fit: write the reason to FILE and exit 0 (read the source in place)",
    )
    parser.add_argument(
        "--start",
        type=start_condition,
        metavar="AMOUNT",
        help="with --job: each complete file appears at once in DIR/.early-ID/NAME/data; --started is created when this "
        "much has been copied: 10%%, 8 files or 20GB",
    )
    parser.add_argument(
        "--started", default="", metavar="FILE", help="file to create when --start is reached"
    )
    parser.add_argument(
        "--balance", choices=BALANCES, default="files", help="equal shards by files or bytes (files)"
    )


def copy_options(parser: Parser) -> None:
    """Add checks, syncing, eviction, locks and the job that uses the set."""
    effort_options(parser)
    parser.add_argument(
        "--verify",
        action="store_true",
        help="read the copy back and compare its hashes, also a copy that is already published",
    )
    parser.add_argument(
        "--recheck",
        choices=CHECKS,
        default="sample",
        help="files whose size and time are compared before a published copy is reused; sample: all files if that takes less "
        "than a second, else the largest, the last modified and a random sample (sample)",
    )
    parser.add_argument(
        "--sync",
        choices=("auto", "none", "set", "file"),
        default="auto",
        help="flush to the disk: never, before the set is published, after each block (auto: set with --keep cache)",
    )
    parser.add_argument(
        "--quota", type=size, metavar="SIZE", help="evict the least recently used sets beyond this total"
    )
    parser.add_argument(
        "--lock-timeout",
        type=duration,
        default=3600.0,
        metavar="TIME",
        help="maximum time to wait for another job that is copying the set (1h)",
    )
    parser.add_argument(
        "--keep",
        choices=("cache", "job"),
        default="cache",
        help="how long to keep the set: for this job only, or as a cache (cache)",
    )
    parser.add_argument("--job", default="", metavar="ID", help="id of the job that uses the set")
    parser.add_argument(
        "--held-by",
        default="",
        metavar="ID",
        help="id of the whole job, of which --job is a part: it uses the set, too",
    )
    parser.add_argument(
        "--lasting", type=duration, default=0.0, metavar="TIME", help="remaining walltime of the job"
    )


def node_options(parser: Parser) -> None:
    """Add the options of a copy by several nodes: one call per node, with the same arguments except --index."""
    parser.add_argument(
        "--hosts",
        metavar="FILE",
        help="file with one host a line; the first host reads the source, the others receive it",
    )
    parser.add_argument(
        "--index", type=int, default=0, metavar="K", help="line of this node in --hosts, from 0"
    )
    parser.add_argument("--port", type=int, default=0, help="TCP port that every node listens on")
    parser.add_argument(
        "--secret", default="", metavar="FILE", help="file with the job's secret, with mode 0600"
    )
    parser.add_argument(
        "--bind", default="", metavar="ADDRESS", help="address to listen on (that of this node's host name)"
    )
    parser.add_argument(
        "--shape", choices=SHAPES, default="auto", help="chain, tree, or whichever is estimated faster (auto)"
    )
    parser.add_argument(
        "--readers",
        type=int,
        default=1,
        metavar="N",
        help="number of chains, each with one node that reads the source (1)",
    )
    parser.add_argument(
        "--join-timeout",
        type=duration,
        default=300.0,
        metavar="TIME",
        help="maximum time for all nodes to start (5m)",
    )
    parser.add_argument(
        "--dead-after",
        type=duration,
        default=10.0,
        metavar="TIME",
        help="silence after which a node counts as lost (10s)",
    )


def stage_arguments(argv: List[str]) -> argparse.Namespace:
    """Parse the arguments of `stage`; raises Usage if they are invalid or contradict each other."""
    parser = Parser("stage", "Copy a data set to this node, or with --hosts to all nodes of a job at once.")
    source_options(parser)
    store_options(parser)
    strategy_options(parser)
    copy_options(parser)
    node_options(parser)
    report_options(parser)
    arguments = parser.parse_args(argv)
    if arguments.worker_count < 0 or arguments.worker_count > 64:
        raise Usage("--workers is between 1 and 64")
    if arguments.hosts is not None and (not 0 < arguments.port < 65536 or not arguments.secret):
        raise Usage("--hosts needs --port and --secret", "the same on every node")
    if scheme(arguments.source) and scheme(arguments.source) not in SCHEMES:
        raise Usage("`{}` is not a path, and none of {}://".format(arguments.source, "://, ".join(SCHEMES)))
    if (arguments.url_from or arguments.header_from) and scheme(arguments.source) not in ("http", "https"):
        raise Usage("--url-from and --header-from need a source that begins with https:// or http://")
    if scheme(arguments.source) and (
        arguments.strategy == "part" or (arguments.strategy == "shard" and arguments.hosts)
    ):
        # The first node downloads the source for all others, so they cannot link to it or read their own shards.
        raise Usage("a source that is a URL needs strategy copy or pack", "the first node reads it for all")
    reads_all = arguments.verify or arguments.checksums or arguments.version
    if arguments.unpack and arguments.strategy in ("part", "shard"):
        raise Usage("--unpack needs strategy copy or pack", "the first node unpacks the archive for all")
    if arguments.start is not None and (not arguments.job or arguments.strategy == "pack" or reads_all):
        raise Usage(
            "--start needs --job, and excludes --strategy pack, --verify, --checksums and --version",
            "a pack is one file, and the others read the whole copy first",
        )
    if arguments.strategy == "image" and (
        arguments.unpack
        or arguments.start
        or arguments.include
        or arguments.exclude
        or arguments.skip_special
        or arguments.links == "follow"
    ):
        raise Usage(
            "--strategy image excludes --unpack, --start, --include, --exclude, --skip-special and --links follow",
            "`mksquashfs` takes a whole directory, and an image cannot be used before it is complete",
        )
    if arguments.version and arguments.strategy == "shard":
        raise Usage("--version excludes --strategy shard", "the digest is of all files")
    if arguments.start is not None:
        arguments.start.marker = arguments.started
    return arguments
