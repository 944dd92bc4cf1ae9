"""`dlrun help`: what belongs to no single command."""

from __future__ import annotations

import click

TOPICS = {
    "exit-codes": """\
  0  done
  1  the operation failed: a scheduler refused, a copy or a check failed
  2  the spec, the site profile or the command line is not valid; nothing was done
  3  a bug in dlrun; a log was written
  4  a login node wants authentication
130  interrupted
With `submit --wait`, the job's own exit code.""",
    "environment": """\
DLRUN_SITE          site profile to use when the spec and `--site` name none
DLRUN_SITE_PATH     directories with site profiles, separated by colons
DLRUN_SET_A__B=c    sets the key `a.b` of every spec; two underscores stand for the dot
DLRUN_JOBS          where job directories are made (default: $XDG_STATE_HOME/dlrun/jobs)
NO_COLOR            no colour (any value); FORCE_COLOR: colour also where the output is no terminal

Inside a job:
DLRUN_JOB_DIR, DLRUN_RUN_DIR    the job's directory, and this run's (the same unless it is a sweep)
DLRUN_JOB_ID, DLRUN_RUN_ID      the scheduler's id, and one that changes with every start
DLRUN_RESTART, DLRUN_POINT      how often it was started again, and which point of the sweep it is
DLRUN_REPLACED, DLRUN_SECONDS   how often a node that died was replaced, and the seconds of the job until then
DLRUN_LAUNCHED                  when the ranks were started, in ns by the clock of the node that runs job.sh
DLRUN_ROLE, DLRUN_RANK, DLRUN_LOCAL_RANK, DLRUN_NODE_RANK, DLRUN_HOST   which process this is, and where
DLRUN_WORLD_SIZE, DLRUN_LOCAL_SIZE, DLRUN_NODES, DLRUN_THREADS          how many processes, nodes and threads
DLRUN_ALLOWED                   with `verify`: the CPUs that the rank was started with, before it was bound
DLRUN_COMM_CPUS, DLRUN_LOADER_CPUS   CPUs that the placement keeps for communication and for data loading
DLRUN_HOSTS                     a file with the nodes, the first one first
DLRUN_MASTER_ADDR, DLRUN_MASTER_IP, DLRUN_MASTER_PORT                   where ranks meet
DLRUN_DATA_<NAME>               path of a data set
DLRUN_STAGE, DLRUN_STAGE_PORT   where staged data sets lie on each node, and the port that brings them
DLRUN_STAGE_EVENTS              a file with what staging does on this node, one JSON object a line
DLRUN_RESULTS                   directory on each node whose content is brought away at the end (`results:`)
DLRUN_USER, DLRUN_PROCESS       who runs the job; a mark on all processes that a rank starts""",
}


def about_variable(name: str) -> str | None:
    """What dlrun's own environment variable of this name is for; None if it has none."""
    for line in TOPICS["environment"].splitlines():
        names, _, text = line.partition("  ")
        if name in names.split(", "):
            return text.strip()
    return None


@click.command(name="help", epilog="Example: dlrun help exit-codes")
@click.argument("topic", required=False, metavar="[TOPIC]", type=click.Choice(list(TOPICS)))
@click.pass_context
def command(ctx: click.Context, topic: str | None) -> None:
    """Explain TOPIC; without one, show dlrun's own help."""
    if topic is not None:
        click.echo(TOPICS[topic])
    elif ctx.parent is not None:
        click.echo(ctx.parent.get_help())
        click.echo(f"\nTopics: {', '.join(TOPICS)}")
