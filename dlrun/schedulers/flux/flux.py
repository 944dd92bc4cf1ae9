"""Flux, from 0.60: flux batch, flux jobs, flux cancel (flux-framework/flux-core, doc/man1; run with 0.88).

Each job is a nested Flux instance: the script runs on its first node and starts ranks by `flux run`
(`dlrun.launchers.flux`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlrun.errors import OperationFailed
from dlrun.model.text import Shell
from dlrun.resources import beside
from dlrun.schedulers.flux.directives import PREFIX, array, directives
from dlrun.schedulers.flux.ending import LOOK as LOOK_AT_END, parse_ending
from dlrun.schedulers.flux.ids import ID, each, plain, recorded
from dlrun.schedulers.flux.options import OPTIONS
from dlrun.schedulers.flux.states import FORMAT, LOOK, parse as parse_queue
from dlrun.schedulers.protocol import Allocation, Probe
from dlrun.schedulers.refusals import every_line_matches
from dlrun.schedulers.taken import Taken

__all__ = ["ID", "OPTIONS", "PREFIX", "array", "directives", "parse_ending", "parse_queue", "recorded"]

NAME = "flux"
CLIENT = "flux"
BY_HAND = "flux batch"
# FLUX_JOB_ID is not set in a batch script, which is the initial program of an instance; this is the id of the instance.
JOB_ID = Shell("${FLUX_ENCLOSING_ID/#ƒ/f}")
ARRAY_INDEX = Shell("${DLRUN_FLUX_POINT:-}")
LIBRARY: tuple[str, ...] = (beside(__file__, "flux"), "resubmit")
HOSTS = r"flux hostlist --expand --delimiter='\n' local"
# Flux has no requeue; a new `flux batch` from inside the job goes to the parent instance.
REPLACES_FIRST_NODE = False
HIDES_ENVIRONMENT = True
# `flux batch --signal` signals every broker, and SIGUSR1 ends the brokers of other nodes, so the job script sends the signal.
WRITES_IN_PLACE = True
FINDER = beside(__file__, "find_flux")
# `flux run` reports a lost node, but the job continues, so REPORTS_LOST_NODES stays false.
STEPS = "flux"
POINTS_INSIDE = True
ROLES_INSIDE = True
# "In V1, the `resources` list MUST contain exactly one element, which MUST be either `node` or `slot`."
NO_COMPONENTS = "its requests have one kind of node (RFC 25, version 1 of Flux's jobspec)"
LAUNCHER = "flux"
ACCOUNT_OPTION = "--bank"
FEATURES = True
EXCLUDE = "--requires=-host:"
ALLOCATION = Allocation(
    start="flux alloc",
    job_id="FLUX_ENCLOSING_ID",
    count=("flux", "getattr", "size"),
    size="--nodes={nodes} --nslots={total} --cores-per-slot={cpus}",
)

REFUSALS = {
    r"Unable to connect to Flux|No such file or directory.*broker|ENOSYS": (
        "no Flux instance answers here: submit on a login node of the cluster"
    ),
    r"not a valid queue|Invalid queue": "name a queue under resources.partition; `flux queue list` lists them",
    r"job submission (to \S+ )?is disabled": (
        "no jobs are taken there now: ask the centre when they are again, or name another queue under resources.partition"
    ),
    r"host '\S+' not found|invalid hosts": (
        "correct the names under resources.hosts and resources.exclude: `flux resource list` lists the nodes of this instance"
    ),
    r"exceeds policy limit": (
        "the request exceeds a limit of the queue: shorten resources.walltime or request less; `flux queue list` shows limits"
    ),
    r"unsatisfiable|not enough|need \d+": (
        "no such nodes are there: request fewer nodes, or other properties; `flux resource status` shows drained ones, for which "
        "Fluxion lets no job wait"
    ),
    r"dependency: after\w+: job \S+ (failed|was canceled)|dependency:": (
        "a job under `after` is unknown to Flux, or ended such that this one can never start"
    ),
    r"not a member of|bank|no such user": "name a bank that you may charge under resources.account",
    r"orphan 'flux:'|unrecognized arguments|invalid choice|expected one argument": (
        "the site profile or the spec has a directive that this version of Flux does not support"
    ),
}
"""Regular expressions for what `flux batch` prints, with advice."""

_IDENTIFY = """\
flux resource list --states=all --no-header --format='{nodelist}' || exit
path=$(flux getattr jobid-path 2>/dev/null || flux getattr jobid 2>/dev/null)
path=${path#/}
if [[ -z $path ]]; then
  method=$(flux getattr broker.boot-method 2>/dev/null)
  if [[ $method == config ]]; then path=system
  else path=$(flux exec -n -r 0 flux getattr broker.starttime 2>/dev/null); fi
fi
printf 'instance %s\\n' "${path//ƒ/f}"
"""
"""An instance inside a job of Flux has the path of its job; the system's is configured, others, such as those of `flux start`
in a job of Slurm, have the time at which their first broker started (flux-broker-attributes(7))."""

_PROBE = """\
wait=$1; shift; id=$(flux submit "$@") || exit
if ! flux job wait-event --timeout="$wait" "$id" start >/dev/null; then
  flux cancel "$id"; echo "it did not start within $wait s, and was cancelled" >&2; exit 1
fi
flux job attach "$id"
"""


def submit(
    script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
) -> Sequence[str]:
    """Arguments that submit a script, or all points of a sweep in one process; with `check` they only validate it."""
    if check:
        return ("bash", "-c", TEXT, "flux", script)
    if points is None:
        return ("flux", "batch", script)
    return ("bash", "lib/flux.sh", script, str(points), str(at_once or 0))


def submitted(stdout: str) -> str:
    """The printed job id, or the ids of a sweep's points joined by commas; other lines are ignored."""
    ids = [job_id for line in stdout.splitlines() if (job_id := plain(line))]
    if not ids:
        raise OperationFailed("flux printed no job id", help="`flux jobs` shows whether the job is there")
    return ",".join(ids)


def tasks(job_id: str) -> Sequence[str]:
    """The job ids of a sweep's points."""
    return each([job_id])


def identify() -> Sequence[str]:
    """Arguments that list the compute nodes, whose names identify the cluster, and print which instance answers."""
    return ("bash", "-c", _IDENTIFY, "flux")


def identified(stdout: str) -> str | None:
    """The common prefix of the host names, `tuo` of `tuo[1-1152]`, and after `/` the instance unless it is the system's.

    None if the instance is not known: another one has other jobs, on the same nodes.
    """
    nodes, _, rest = stdout.strip().partition("\n")
    match = re.match(r"[A-Za-z][A-Za-z-]*", nodes)
    if match is None:
        return None
    name, instance = match[0].rstrip("-"), rest.strip().removeprefix("instance").strip()
    if rest.startswith("instance") and not instance:
        return None
    return name if instance in ("", "system") else f"{name}/{instance}"


def estimate(output: str) -> str | None:
    """What keeps the job from starting now, or what a check cannot verify; a time is only known for pending jobs."""
    if waits := re.search(r"^would wait: (.+)$", output, re.MULTILINE):
        return f"none as it is now: {waits[1]}"
    later = re.findall(r"^not checked before: (.+)$", output, re.MULTILINE)
    return f"unknown; only when the job is submitted Flux checks {' and '.join(later)}" if later else None


def taken(job_id: str) -> Sequence[str]:
    """`flux jobs`, which shows a job after the ingest and frobnicator plug-ins."""
    return ("flux", "jobs", "--no-header", "--format={queue}|{duration}", *each([job_id])[:1])


def parse_taken(stdout: str) -> Taken | None:
    """Queue and walltime of the first job."""
    name, bar, limit = stdout.partition("\n")[0].strip().partition("|")
    span = re.fullmatch(r"(\d{1,9})(?:\.\d+)?", limit.strip())
    return Taken(partition=name.strip() or None, walltime=int(span[1]) if span else None) if bar else None


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """One `flux jobs` for any number of jobs, and why some wait; ended jobs are listed until the instance purges them."""
    return ("bash", "-c", LOOK, "flux", FORMAT, *each(job_ids))


def way_in(own: str, answering: str) -> Sequence[str]:
    """`flux proxy`, which runs $SHELL, to an instance below the one that answers, by ssh to the first node of the job around it.

    Both are names as of `identified`, which end with the path of the instance.
    """
    below = own.removeprefix(f"{answering}/")
    return ("env", "SHELL=/bin/sh", "flux", "proxy", below) if below != own else ()


def ending(job_id: str) -> Sequence[str]:
    """The job's event log, which only its user and the instance's owner may read, and the instance's."""
    return ("bash", "-c", LOOK_AT_END, "flux", job_id)


def probe(asked: Probe) -> Sequence[str]:
    """A whole node, because a GPU comes only with a slot; cancelled after `wait`, because `flux run` has no timeout."""
    named = [f"--requires=host:{asked.host}"] if asked.host else []
    queue = [f"--queue={asked.queue}"] if asked.queue else []
    what = ["--job-name=dlrun-probe", f"--time-limit={asked.minutes}m", "--nodes=1", "--exclusive"]
    free = ["-o", "cpu-affinity=off", "-o", "gpu-affinity=off", "-o", "mpibind=off"]
    return ["bash", "-c", _PROBE, "flux", str(asked.wait), *what, *free, *named, *queue]


def unknown_jobs(stderr: str, code: int) -> bool:
    """True if a request failed only because the jobs are purged or inactive."""
    return every_line_matches(r"JobID \S+ unknown|job is inactive|unknown job id", stderr)


def task_id(job_id: str, task: int) -> str:
    """The job id of one point of a sweep."""
    ids = each([job_id])
    return ids[task] if task < len(ids) else job_id


def cancel(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that cancel jobs."""
    return ("flux", "cancel", *each(job_ids))


def hold(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that hold jobs, by urgency 0."""
    return _urgency("0", job_ids)


def release(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that release held jobs, by Flux's default urgency, 16."""
    return _urgency("16", job_ids)


def _urgency(level: str, job_ids: Sequence[str]) -> Sequence[str]:
    """A shell loop, because `flux job urgency` takes one job."""
    text = (
        'urgency=$1; shift; code=0; for id; do flux job urgency "$id" "$urgency" || code=1; done; exit $code'
    )
    return ("bash", "-c", text, "flux", level, *each(job_ids))


# Validation of a job without submitting it, by the programs of Flux's own ingest.
#
# `flux batch --dry-run` only parses the directives. The frobnicator adds the queue's defaults and constraints, the validator
# asks the scheduler whether the request could ever be satisfied, and the limits of the queue are compared here
# (flux-config-ingest(5)). Banks are checked only by a plugin of flux-accounting, at submission.

TEXT = r"""
place=$(mktemp -d) && trap 'rm -rf "$place"' EXIT && cp -- "$1" "$place/job.sh" && cd -- "$place" || exit
said() { sed -n 's/^{"errnum": [1-9][0-9]*, "errstr": "\(.*\)"}$/\1/p' "$1" | grep . >&2 && exit 1; }
of() { sed -n "s/^# flux: --$1=\([^ ]*\).*/\1/p" job.sh | tail -n 1; }
flux batch --dry-run job.sh >asked || exit
flux job-frobnicator --jobspec-only --plugins=defaults,constraints <asked >filled
said filled
if ! sed -n 's/^{"errnum": 0, "data": \(.*\)}$/\1/p' filled | grep . >asked.new; then cp asked asked.new; fi
flux job-validator --jobspec-only --plugins=jobspec,feasibility <asked.new >valid
if grep -q '"Request requires owner credentials"' valid; then # of a system instance: a guest's request is checked when it comes
  flux job-validator --jobspec-only --plugins=jobspec <asked.new >valid
  echo "not checked before: whether such nodes exist"
fi
said valid
time=$(of time-limit)
flux queue list --no-header --format='{queuem}|{limits.timelimit}|{limits.max.nnodes}' |
  awk -F'|' -v queue="$(of queue)" -v time="${time%s}" -v nodes="$(of nodes)" '
    {usual = sub(/[*]$/, "", $1)}
    queue == "" ? !usual && $1 != "" : $1 != queue {next}
    $2 + 0 && time + 0 > $2 + 0 {bad = 1; print "requested duration (" time " s) exceeds policy limit of " $2 " s for queue " $1}
    $3 ~ /^[0-9]+$/ && nodes + 0 > $3 + 0 {
      bad = 1; print "requested nnodes (" nodes ") exceeds policy limit of " $3 " for queue " $1
    }
    END {exit bad}' >&2 || exit
queue=$(of queue)
status=$(flux queue status ${queue:+"$queue"} 2>/dev/null | sed "s/^[^ ]*: \(Job\|Scheduling\)/\1/")
disabled=$(printf '%s\n' "$status" | sed -n 's/^Job submission is disabled/is disabled/p' | head -n 1)
if [ -n "$disabled" ]; then
  echo "job submission${queue:+ to $queue} $disabled" >&2
  exit 1
fi
stopped=$(printf '%s\n' "$status" | sed -n 's/^Scheduling is stopped/is stopped/p' | head -n 1)
if [ -n "$stopped" ]; then echo "would wait: ${queue:+queue }${queue:-the scheduler} $stopped"; fi
lost=$(flux resource status --no-header --format='{state}|{nodelist}|{reason}' |
  while IFS='|' read -r state nodes reason; do
    case $state in drain* | offline | *\*) echo "$nodes|$nodes${reason:+: $reason}" ;; esac
  done)
hosts=$(sed -n 's/^# flux: --requires=host:\([^ ]*\).*/\1/p' job.sh | tail -n 1)
if [ -n "$hosts" ]; then
  printf '%s\n' "$lost" | while IFS='|' read -r nodes why; do
    if [ -n "$(flux hostlist --intersect "$hosts" "${nodes:-}" 2>/dev/null)" ]; then echo "would wait: not up: $why"; fi
  done
fi
up=$(flux resource list --states=up --no-header --format='{nnodes}' | awk '{n += $1} END {print n + 0}')
nodes=$(of nodes)
if [ "${nodes:-0}" -gt "$up" ]; then
  echo "would wait: it needs $nodes nodes, and $up are up; not up: $(printf '%s\n' "$lost" | cut -d'|' -f2- | paste -sd ,)"
fi
bank=$(of bank)
if [ -n "$bank" ]; then echo "not checked before: bank \`$bank\`"; fi
"""
"""A bash program with the script's path as its argument; on rejection it fails with the reason on standard error."""
