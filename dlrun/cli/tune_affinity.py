"""`dlrun tune-affinity`: place ranks on a node, say it in any tool's words, prove it, measure it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrun.cli.options import say

if TYPE_CHECKING:
    from dlrun.cli.affinity_actions import Task

FORMATS = (
    "table", "env", "wrapper", "srun", "openmpi", "rankfile", "intelmpi", "hydra", "numactl", "json", "svg",
)  # fmt: skip


class TrailingCommand(click.Command):
    """A command whose arguments after `--`, or after `--exec`, are another program's, left as they are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the other program's arguments aside before options are looked for."""
        rest: list[str] = []
        for i, word in enumerate(args):
            if word in ("--", "--exec"):
                rest = args[i + 1 :]
                args = args[: i + (word == "--exec")]
                break
        ctx.meta["command"] = tuple(rest[1:] if rest[:1] == ["--"] else rest)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line names the trailing command too."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@click.command(
    cls=TrailingCommand,
    epilog="Examples: dlrun tune-affinity --ranks-per-node 2; "
    "dlrun tune-affinity --site lumi-g --format srun; dlrun tune-affinity --exec python train.py",
)
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@click.option("--site", metavar="NAME|FILE", help="Site profile whose node type to place on.")
@click.option("--node-type", metavar="NAME", help="Node type of the site.")
@click.option(
    "--topology",
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="Topology: from --capture, `lstopo --of xml`, `lscpu -p`, a copy of /sys and /proc, or .yaml with the keys of "
    "a profile's `topology:`.",
)
@click.option(
    "--ranks-per-node", type=click.IntRange(min=1), help="Default: one a GPU, else one a NUMA node."
)
@click.option(
    "--framework", metavar="NAME", help="What runs: sets OpenMP runtime, communication library and cores."
)
@click.option(
    "--openmp",
    type=click.Choice(["gomp", "gomp-old", "iomp", "iomp-list", "none"]),
    help="Bind OpenMP threads one by one: GNU's, GNU's of GCC 4.8 and older, Intel's by its order, Intel's by a "
    "list, none; default: by the framework, and GNU's in `--format env` alone.",
)
@click.option("--comm-cores", type=click.IntRange(min=0), help="Communication cores of each rank.")
@click.option(
    "--comm-policy", type=click.Choice(["own", "spread"]), help="From the rank's own package, or all."
)
@click.option("--loader-cores", type=click.IntRange(min=0), help="Data-loading cores of each rank.")
@click.option("--smt", type=click.Choice(["one", "all"]), help="Hardware threads of a core to compute on.")
@click.option(
    "--reserve", metavar="CPUS|RULE", help="Keep free: a CPU list, first-core-per-l3, N-per-node, none."
)
@click.option(
    "--rank-order", type=click.Choice(["gpu", "numa"]), help="Ranks follow GPU indexes or NUMA nodes."
)
@click.option(
    "--memory",
    "--membind",
    "memory",
    type=click.Choice(["strict", "preferred", "none"]),
    help="NUMA memory policy.",
)
@click.option(
    "--gpus-per-rank", type=click.IntRange(min=0), help="Default: share all GPUs out; 0: a CPU job."
)
@click.option(
    "--locality", type=click.Choice(["strict", "balance"]), help="Stay by the GPU, or use all cores."
)
@click.option("--l3-borders", type=click.Choice(["free", "strict"]), help="May a rank straddle two caches?")
@click.option(
    "--oversubscribe", is_flag=True, default=None, help="Let ranks share cores if there are too few."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", help="What to print.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file; .svg is a picture.")
@click.option("--explain", is_flag=True, help="Say which rules gave this placement.")
@click.option("--capture", is_flag=True, help="Print the topology itself, for a site profile.")
@click.option("--verify", is_flag=True, help="Start the ranks here (or be one) and read back where they run.")
@click.option("--measure", is_flag=True, help="Time what the rules leave open, here; with -- COMMAND, that.")
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    help="With --measure: put the winner into this spec or override.",
)
@click.option(
    "--exec", "execute", is_flag=True, help="Bind and run the command that follows on this node now."
)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Place ranks on the cores, memory, GPUs and NICs of a node: SPEC's nodes, a site's, a file's, or this machine's."""
    from dlrun.cli import affinity_actions as actions

    options["command"] = ctx.meta["command"]
    options["color"] = (ctx.obj or {}).get("color", "auto")
    task = actions.prepare(options)
    if options["capture"]:
        _out(task, actions.capture(task))
    elif options["execute"]:
        ctx.exit(actions.execute(task))
    elif options["verify"]:
        ctx.exit(actions.verify(task))
    elif options["measure"]:
        actions.measure(task)
    else:
        _out(task, actions.show(task))


def _out(task: Task, text: str) -> None:
    """Answer on stdout, or in the file that was asked for."""
    from dlrun.cli import affinity_actions as actions

    path = task.options["output"]
    if path is None:
        click.echo(text, nl=False, color=True)
        sys.stdout.flush()
    else:
        actions.save(text, path)
        say(f"written to {path}")
