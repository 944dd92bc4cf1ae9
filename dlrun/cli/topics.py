"""`dlrun help`: explanations that concern several commands."""

from __future__ import annotations

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.printing import echo_drawn

TOPICS = {
    "exit-codes": """\
  0  success
  1  the operation failed: the scheduler rejected it, or a copy or a check failed
  2  the spec, the site profile or the command line is invalid; nothing was done
  3  a bug in dlrun; a log was written
  4  authentication at a login node failed
  5  `dlrun init --from` wrote a draft: the spec has lines marked `check this`
130  interrupted
With `submit --wait`: the exit code of the job.""",
    "environment": """\
DLRUN_SITE          site profile, if neither the spec nor `--site` names one
DLRUN_SITE_PATH     directories with site profiles, separated by colons
DLRUN_SET_A__B=c    sets the key `a.b` of every spec (two underscores for a dot)
DLRUN_JOBS          parent of the job directories (default: $XDG_STATE_HOME/dlrun/jobs)
NO_COLOR            disables colour (any value); FORCE_COLOR enables it also if the output is not a terminal

Inside a job:
DLRUN_JOB_DIR, DLRUN_RUN_DIR    directory of the job, and of this run (the same except in a sweep)
DLRUN_WORK                      working directory of the ranks, with `code: snapshot`
DLRUN_SUBMIT_DIR, DLRUN_MOUNT_<N>, DLRUN_MOUNT_WORKDIR   what a container mounts, and where it works, with `code: snapshot`
DLRUN_JOB_ID, DLRUN_RUN_ID      id in the scheduler, and an id that changes with every restart
DLRUN_RESTART, DLRUN_POINT      number of restarts, and index of the sweep point
DLRUN_PLACE                     place of the point on its node, where a sweep has `nodes`
DLRUN_COPIES                    seconds in which the results of a point inside one job are copied when it is asked to end
DLRUN_HELD_BY                   the job whose points share the data that is kept on each node until its end
DLRUN_MPS_SHARE                 percent of its GPU's threads for a point, where a sweep has `mps`
DLRUN_REPLACED                  job id, number of failed nodes replaced, and seconds that the job had run by then
DLRUN_SUFFIX, DLRUN_OWN_ADDRESS suffix of host names on the fabric, and this node's address (where a framework needs them)
DLRUN_LAUNCHED                  start time of the ranks in ns, by the clock of the node that runs job.sh
DLRUN_OWN_SOCKET                until a rank begins: the variable with the number of the scheduler's socket that it closes last
DLRUN_ENVIRONMENT, DLRUN_PYTHON, DLRUN_PYTHON3   venv, conda environment and Python that every node must have
DLRUN_PATH, DLRUN_NODE_PYTHON   PATH before modules are loaded, and the site's `python`: for dlrun's own programs
DLRUN_CHECKED_PYTHON            the Python for them that a script of the job has tried on this host, and with which libraries
DLRUN_DIRECTORIES, DLRUN_IMAGE  what modules and set-up lines add to PATH and LD_LIBRARY_PATH, and the image: likewise
DLRUN_IMAGE_FILE, DLRUN_IMAGE_KEY   with `fetch: job`: the path of the pulled image, and the begin of its digest
DLRUN_ROLE, DLRUN_RANK, DLRUN_LOCAL_RANK, DLRUN_NODE_RANK, DLRUN_HOST   role, indexes and host of this process
DLRUN_WORLD_SIZE, DLRUN_LOCAL_SIZE, DLRUN_NODES, DLRUN_THREADS          number of ranks, local ranks, nodes, threads per rank
DLRUN_ALLOWED, DLRUN_GPUS       with `verify`: CPUs of the rank before it was bound, and the variable that shows it its GPUs
DLRUN_GPUS_OF_ROLE              on a node that several roles share: the variable that shows this role its GPUs, and its value
DLRUN_COMM_CPUS, DLRUN_LOADER_CPUS   CPUs reserved for communication and for data loading
DLRUN_HOSTS                     file with the host names of the nodes, in order of node index
DLRUN_MASTER_ADDR, DLRUN_MASTER_IP, DLRUN_MASTER_PORT                   rendezvous address and port
DLRUN_DATA_<NAME>               path of a data set
DLRUN_TRACK_ID, DLRUN_PLAN, DLRUN_COMMIT   with `track`, in rank 0: name of the run, digest of the plan, commit of the code
DLRUN_CACHES                    with `caches: auto`: the directory of compilers' caches on each node
DLRUN_CACHES_RUN                the name of this run's own directory there, for what all nodes must begin with
DLRUN_STAGE, DLRUN_STAGE_PORT   directory of staged data sets on each node, and port of the relay between nodes
DLRUN_GRACE                     seconds between SIGTERM and SIGKILL if not 10: in `dlrun run`, or where the scheduler waits less
DLRUN_STAGE_ALONE               set where that directory is the job's alone: another user has taken the usual name
DLRUN_STAGE_EVENTS              file for staging events of this node (JSON lines)
DLRUN_RESULTS                   directory on each node for results, copied to shared storage at the end (`results:`)
DLRUN_USER, DLRUN_PROCESS       user who runs the job; marks all processes started by a rank""",
}


def about_variable(name: str) -> str | None:
    """The description of dlrun's environment variable of this name; None if there is none."""
    for line in TOPICS["environment"].splitlines():
        names, _, text = line.partition("  ")
        if name in names.split(", "):
            return text.strip()
    return None


@click.command(name="help", epilog=examples("dlrun help exit-codes"))
@click.argument("topic", required=False, metavar="[TOPIC]")
@click.pass_context
def command(ctx: click.Context, topic: str | None) -> None:
    """Explain TOPIC or a command; without TOPIC, show the help of dlrun and list the topics."""
    group = ctx.parent.command if ctx.parent is not None else None
    if topic in TOPICS:
        echo_drawn(TOPICS[topic] + "\n")
    elif topic is not None and isinstance(group, click.Group):
        name, subcommand, _ = group.resolve_command(ctx, [topic])
        if subcommand is not None and ctx.parent is not None:
            with click.Context(subcommand, info_name=name, parent=ctx.parent) as inner:
                echo_drawn(subcommand.get_help(inner) + "\n")
    elif ctx.parent is not None:
        echo_drawn(ctx.parent.get_help() + "\n")
        echo_drawn(f"\nTopics: {', '.join(TOPICS)}\n")
