"""The node programs by name: `python3 node.pyz stage ...`, or `python3 -m dlrun.node stage ...`."""

import codecs
import contextlib
import gc
import importlib
import io
import os
import sys
import threading
from typing import List, Optional

# Thresholds of gc.set_threshold: a manifest has millions of objects, none of them garbage, and each collection visits all.
GARBAGE = (100_000, 50, 100)
COMMANDS = {
    "stage": ("commands.stage:main", "copy a data set to this node, or to all nodes of a job"),
    "stage-out": ("commands.stage_out:main", "copy results from this node to a shared file system"),
    "image-digest": ("commands.image_digest:main", "ask a registry for the digest of an image"),
    "mount": ("commands.mount:main", "mount a staged image for a job"),
    "list": ("commands.cache:list_sets", "the data sets of this node"),
    "compiled-check": ("commands.compiled:check", "leave a damaged archive of compiled entries aside"),
    "compiled-find": ("commands.compiled:find", "find what compilers have compiled in the user's store"),
    "compiled-save": ("commands.compiled:save", "add what compilers have compiled to the user's store"),
    "compiled-seed": (
        "commands.compiled:seed",
        "stage what compilers have compiled, into the caches of this node",
    ),
    "evict": ("commands.cache:evict", "remove data sets that no running job uses"),
    "clean": ("commands.cache:clean", "remove the remains of ended jobs"),
    "fix-venv": (
        "commands.venv_scripts:main",
        "make the scripts of a staged Python environment start its own interpreter",
    ),
    "results": ("commands.results:main", "make or remove the directory for a job's results on this node"),
    "check-rank": (
        "checks.check_rank:main",
        "report the rank, its binding, and whether it reaches the others",
    ),
    "check-site": (
        "checks.check_site:main",
        "report this node's actual values of site profile keys",
    ),
    "verify": ("commands.cache:verify", "read a data set back and check its hashes"),
}
OLD_NAMES = {"out": "stage-out", "mend": "fix-venv"}  # accepted for one version
RESUME_HINTS = {"stage": "blocks that were copied and checked are kept; the same command resumes from there"}
"""Command -> help line after an interrupt: the state it leaves, and how to resume."""


def usage() -> str:
    """The list of commands."""
    lines = ["  {:<12} {}".format(name, about) for name, (_, about) in sorted(COMMANDS.items())]
    return "usage: node.pyz COMMAND ...\n\n{}\n".format("\n".join(lines))


def print_any_name() -> None:
    """Let names that are not ASCII be printed in the C locale, which Python 3.6 takes for ASCII."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if codecs.lookup(stream.encoding or "ascii").name == "ascii":
            lines = stream.line_buffering
            setattr(
                sys, name, io.TextIOWrapper(stream.detach(), "utf-8", "surrogateescape", line_buffering=lines)
            )


def main(argv: Optional[List[str]] = None) -> int:
    """Run one command and return its exit status: 0, 1 (failed), 2 (invalid arguments) or 130 (interrupted).

    argv: None for those of this process, which then ends here.
    """
    if argv is not None:
        return _run(argv)
    print_any_name()
    status = _run(sys.argv[1:])
    _end(status)
    return status


def _end(status: int) -> None:
    """End this process, unless it has threads to wait for, or output that cannot be written: then return.

    To take modules and objects apart one by one takes 15 ms, and the system frees them anyway.
    """
    if all(thread.daemon or thread is threading.main_thread() for thread in threading.enumerate()):
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


def _run(argv: List[str]) -> int:
    words = list(argv)
    words[:1] = [OLD_NAMES.get(word, word) for word in words[:1]]
    if not words or words[0] not in COMMANDS:
        wants_help = bool(words) and words[0] in ("-h", "--help", "help")
        (sys.stdout if wants_help else sys.stderr).write(usage())
        return 0 if wants_help else 2
    # Imported only here: the list of commands and `--help` need nothing of the package.
    from .common.errors import NodeError, UserInterrupt, from_system

    gc.set_threshold(*GARBAGE)
    module, _, function = COMMANDS[words[0]][0].partition(":")
    try:
        program = importlib.import_module("." + module, __package__)
        if module.startswith("checks.") and words[1:2] in (["-h"], ["--help"]):
            sys.stdout.write(program.__doc__ or "")
            return 0
        return int(getattr(program, function)(words[1:]) or 0)
    except NodeError as caught:
        fault = caught
    except OSError as caught:
        fault = from_system(caught, "cannot finish `{}`".format(words[0]))
    except MemoryError:
        fault = NodeError("out of memory", "raise the job's memory limit")
    except KeyboardInterrupt:
        fault = UserInterrupt("interrupted", RESUME_HINTS.get(words[0]))
    sys.stderr.write(fault.report())
    return fault.exit_code


if __name__ == "__main__":
    sys.exit(main())
