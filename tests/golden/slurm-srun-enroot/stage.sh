#!/bin/bash
# What each node of job contained runs once: bring its data to node-local storage, and take it away.
# The launcher (srun) starts it, one on each node: stage.sh in|clean|keep

# shellcheck disable=SC2016 # literal dollars are meant
set -uo pipefail

index="$SLURM_PROCID"
read -r host </proc/sys/kernel/hostname
exec >>"$DLRUN_RUN_DIR/logs/stage-$index.log" 2>&1
export DLRUN_STAGE_EVENTS=$DLRUN_RUN_DIR/logs/stage-$index.jsonl # the same for machines
run=${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-} # an array's id may have brackets

node() { # COMMAND...: the node program, which needs nothing but a Python from 3.6 on
  python3 "$DLRUN_JOB_DIR/node.pyz" "$@" --to "$DLRUN_STAGE"
}

failed() { # CODE: note it for job.sh, and end
  printf '%s stage %s %s %s\n' "$(date +%s%N)" "$index" "${host%%.*}" "$1" >"$DLRUN_RUN_DIR/failures/stage-$index"
  exit "$1"
}

case $1 in
in)
  node clean # what jobs that are gone left behind
  # as the spec says
  node stage --name set --source '/scratch/my set' --strategy copy --keep job --lasting 1800s --expect 10000000000 --job "$run" \
    --hosts "$DLRUN_HOSTS" --index "$index" --port "$DLRUN_STAGE_PORT" --secret "$DLRUN_RUN_DIR/stage-secret" || failed $?
  ;;
clean) node clean --job "$run" ;;
keep) # waits for the end: in a job that Slurm cancels no step can be started any more, but this one runs
  ending=
  trap 'ending=1' TERM
  while [[ -z $ending ]]; do
    sleep 3600 &
    wait $!
  done
  kill $! 2>/dev/null
  [[ ! -e $DLRUN_RUN_DIR/kept/none ]] || exit 0
  for ((waited = 0; waited < 30; waited++)); do # for the ranks here, which were asked to end, too
    grep -lsz "^DLRUN_PROCESS=$DLRUN_RUN_ID " /proc/[0-9]*/environ >/dev/null || break
    sleep 0.1
  done
  code=0
  node clean --job "$run"
  echo "$code" >"$DLRUN_RUN_DIR/kept/$index"
  ;;
esac
