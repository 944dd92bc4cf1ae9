"""Validation of a job without submitting it, by the programs of Flux's own ingest.

`flux batch --dry-run` only parses the directives. The frobnicator adds the queue's defaults and constraints, the validator
asks the scheduler whether the request could ever be satisfied, and the limits of the queue are compared here
(flux-config-ingest(5)). Banks are checked only by a plugin of flux-accounting, at submission.
"""

from __future__ import annotations

TEXT = r"""
place=$(mktemp -d) && trap 'rm -rf "$place"' EXIT && cp -- "$1" "$place/job.sh" && cd -- "$place" || exit
said() { sed -n 's/^{"errnum": [1-9][0-9]*, "errstr": "\(.*\)"}$/\1/p' "$1" | grep . >&2 && exit 1; }
of() { sed -n "s/^# flux: --$1=\([^ ]*\).*/\1/p" job.sh | tail -n 1; }
flux batch --dry-run job.sh >asked || exit
flux job-frobnicator --jobspec-only --plugins=defaults,constraints <asked >filled
said filled
if ! sed -n 's/^{"errnum": 0, "data": \(.*\)}$/\1/p' filled | grep . >asked.new; then cp asked asked.new; fi
flux job-validator --jobspec-only --plugins=jobspec,feasibility <asked.new >valid
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
if [ -n "$bank" ]; then echo "bank not checked: $bank"; fi
"""
"""A bash program with the script's path as its argument; on rejection it fails with the reason on standard error."""
