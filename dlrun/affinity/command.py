"""`dlrun tune-affinity`: bind ranks on a node; print the binding for any tool, verify and measure it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dlrun.affinity import formats
from dlrun.terminal.help_page import Command, examples, heading
from dlrun.terminal.options import UserPath, force_option, site_option
from dlrun.terminal.printing import echo_drawn, notice

if TYPE_CHECKING:
    from dlrun.affinity.actions import PlacementTask

FORMATS = ("table", *formats.FORMATS, "svg")


class TrailingCommand(Command):
    """A command that passes arguments after `--` or `--exec` unchanged to another program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set aside the arguments of the other program before options are parsed."""
        rest: list[str] = []
        for i, word in enumerate(args):
            if word in ("--", "--exec"):
                rest = args[i + 1 :]
                args = args[: i + (word == "--exec")]
                break
        ctx.meta["command"] = tuple(rest[1:] if rest[:1] == ["--"] else rest)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with the trailing command."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@click.command(
    cls=TrailingCommand,
    epilog=examples(
        "dlrun tune-affinity --ranks-per-node 2",
        "dlrun tune-affinity --site lumi-g --format srun",
        "dlrun tune-affinity --exec python train.py",
    ),
)
@click.argument("spec", required=False, type=UserPath())
@heading("Node")
@site_option("Site profile with the node type.")
@click.option("--node-type", metavar="NAME", help="Node type of the site.")
@click.option(
    "--topology",
    type=UserPath(),
    metavar="FILE|DIR",
    help="Topology file: from --capture, `lstopo --of xml` or `lscpu -p`, a copy of /sys and /proc, or YAML with the keys of "
    "`topology:` in site profiles.",
)
@heading("Ranks")
@click.option(
    "--ranks-per-node",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks on the node; default: one per GPU, else one per NUMA node.",
)
@click.option(
    "--framework",
    metavar="NAME",
    help="Framework, for defaults of the OpenMP runtime, the communication library and its cores.",
)
@click.option(
    "--gpus-per-rank",
    type=click.IntRange(min=0),
    metavar="N",
    help="GPUs of each rank; default: an equal share of all; 0: CPU only.",
)
@click.option(
    "--rank-order", type=click.Choice(["gpu", "numa"]), help="Order of ranks: by GPU index or by NUMA node."
)
@click.option(
    "--oversubscribe", is_flag=True, default=None, help="Allow ranks to share cores if there are too few."
)
@heading("Cores and threads")
@click.option("--smt", type=click.Choice(["one", "all"]), help="Hardware threads of each core to use.")
@click.option(
    "--openmp",
    type=click.Choice(["gomp", "gomp-old", "iomp", "iomp-list", "none"]),
    help="OpenMP runtime whose threads are bound one by one: GNU (gomp-old: GCC 4.8 and older), Intel by core order or by "
    "CPU list, or none; default: by the framework, GNU only with `--format env`.",
)
@click.option(
    "--comm-cores", type=click.IntRange(min=0), metavar="N", help="Communication cores of each rank."
)
@click.option(
    "--comm-policy",
    type=click.Choice(["own", "spread"]),
    help="Communication cores in the rank's own package, or spread over all packages.",
)
@click.option(
    "--loader-cores", type=click.IntRange(min=0), metavar="N", help="Data-loading cores of each rank."
)
@click.option(
    "--reserve",
    metavar="CPUS|RULE",
    help="Cores to leave idle: a CPU list, first-core-per-l3, N-per-node or none.",
)
@click.option(
    "--locality",
    type=click.Choice(["auto", "strict", "balance"]),
    help="Use cores local to the GPU, more if they are too few (auto), only those, or all cores.",
)
@click.option(
    "--l3-borders",
    type=click.Choice(["free", "strict"]),
    help="Whether a rank may span two last-level caches.",
)
@heading("Memory and GPUs")
@click.option(
    "--memory",
    "--membind",
    "memory",
    type=click.Choice(["strict", "preferred", "none"]),
    help="NUMA memory policy.",
)
@click.option(
    "--gpu-binding",
    type=click.Choice(["visible", "all", "scheduler"]),
    help="GPUs that a rank sees: only its own (by a variable), all, or those that the scheduler shows it; default: the "
    "site's `gpu_binding`, else visible.",
)
@heading("Actions instead of printing the placement")
@click.option("--explain", is_flag=True, help="Show the rules behind this placement.")
@click.option("--capture", is_flag=True, help="Print the topology, for a site profile.")
@click.option(
    "--exec", "execute", is_flag=True, help="Run the command that follows on this node, with each rank bound."
)
@click.option(
    "--verify",
    is_flag=True,
    help="Start the ranks on this machine and compare their binding with the plan; as a rank of a launcher, only its own.",
)
@click.option(
    "--measure",
    is_flag=True,
    help="Measure the alternatives on this machine, with COMMAND if given after --.",
)
@click.option(
    "--write",
    type=UserPath(),
    help="With --measure: write the best result into this spec or site override.",
)
@click.option(
    "--report",
    is_flag=True,
    help="With --measure: bandwidth, GEMM and all-reduce without binding, with Slurm's binding and with dlrun's; "
    "-o FILE.svg plots it.",
)
@heading("Options")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    metavar="FORMAT",
    default="table",
    help=f"Output format: {', '.join(FORMATS)}.  [default: table]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the placement as JSON, as `--format json` does.")
@click.option(
    "-o",
    "--output",
    type=UserPath(),
    help="Output file; a picture if its name ends in .svg.",
)
@force_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Find the binding of ranks to the cores, memory, GPUs and NICs of a node, and print it for a launcher or apply it.

    The node is that of SPEC, of a site profile, of a topology file, or this machine.
    """
    from dlrun.affinity import actions, granted

    if options.pop("as_json"):
        _is_placement(options)
        options["form"] = "json"
    options["command"] = ctx.meta["command"]
    options["color"] = (ctx.obj or {}).get("color", "auto")
    task = actions.prepare(options)
    if options["capture"]:
        _out(task, actions.capture(task))
    elif options["execute"]:
        from dlrun.affinity.execute import execute

        ctx.exit(execute(task))
    elif options["verify"]:
        ctx.exit(actions.verify(task, granted.placed(task)))
    elif options["report"]:
        _out(task, actions.report(task, granted.placed(task)))
    elif options["measure"]:
        actions.measure(task)
    else:
        _out(task, actions.show(task, granted.printed(task)))


def _is_placement(options: Mapping[str, Any]) -> None:
    """Raise Invalid if something else than a placement, or a topology, is asked for: that is not JSON."""
    from dlrun.errors import Invalid

    for name in ("execute", "verify", "report", "measure", "explain"):
        if options[name]:
            option = {"execute": "exec"}.get(name, name)
            raise Invalid("`--json` prints a placement", help=f"leave out --json or --{option}")
    if options["form"] not in ("table", "json"):
        raise Invalid(
            f"`--json` and `--format {options['form']}` cannot be combined", help="give one of them"
        )


def _out(task: PlacementTask, text: str) -> None:
    """Print the result, or write it to the output file."""
    from dlrun.system.writing import write_output

    path = task.options["output"]
    if path is None:
        echo_drawn(text)
        sys.stdout.flush()
    else:
        write_output(path, text, force=task.options["force"])
        notice(f"wrote {path}")
