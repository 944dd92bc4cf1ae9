#!/bin/bash
# What each node of job burst runs once: bring its data to node-local storage, and take it away.
# The launcher (srun) starts it, one on each node: stage.sh in|out|clean|leave|keep

# shellcheck disable=SC2016 # literal dollars are meant
set -uo pipefail

index="$SLURM_PROCID"
if ((index)); then exit 0; fi # the nodes share the storage: one works for all
read -r host </proc/sys/kernel/hostname
exec >>"$DLRUN_RUN_DIR/logs/stage-$index.log" 2>&1
export DLRUN_STAGE_EVENTS=$DLRUN_RUN_DIR/logs/stage-$index.jsonl # the same for machines
run=${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-} # an array's id may have brackets

node() { # COMMAND...: the node program, which needs nothing but a Python from 3.6 on; a signal does not wait for it
  python3 "$DLRUN_JOB_DIR/node.pyz" "$@" --to "$DLRUN_STAGE" &
  wait "$!"
}

out() { # to the shared file system, and then they go from here
  python3 "$DLRUN_JOB_DIR/node.pyz" out --source "$DLRUN_RESULTS" --to /scratch/results --update --sync set --skip-special \
    --deadline 270s && node results --name "$run" --remove
}

ranks_gone() { # TENTHS: wait no longer for the ranks here to end
  local waited
  for ((waited = 0; waited < $1; waited++)); do
    grep -lsz "^DLRUN_PROCESS=$DLRUN_RUN_ID " /proc/[0-9]*/environ >/dev/null || break
    sleep 0.1
  done
}

leave() { # the job was asked to end: all that is to be done here in the time that is left; false if results stay here
  local code=0
  ranks_gone 30 # they were asked to end, too
  if [[ -d $DLRUN_RESULTS ]]; then out || { ranks_gone 40 && out; } || code=1; fi # again without those that had not ended
  node clean --job "$run"
  return "$code"
}

failed() { # CODE: note it for job.sh, and end
  trap '' TERM # another node may have failed as well and ends this one now: the note is whole, or not there
  printf '%s stage %s %s %s\n' "$(date +%s%N)" "$index" "${host%%.*}" "$1" >"$DLRUN_RUN_DIR/failures/stage-$index"
  exit "$1"
}

case $1 in out | clean | leave) trap '' TERM ;; esac # where the job is asked to end, this is what is still to be done
case $1 in
in)
  trap 'trap "" TERM; kill "$!" 2>/dev/null; wait "$!"; node clean --job "$run"; exit 143' TERM # what has come goes
  node results --name "$run" || exit
  node clean # what jobs that are gone left behind
  # its 150GB goes to node-local storage if it fits ($DW_JOB_STRIPED), and is then read once from the shared file system instead of by 4 nodes in every epoch
  node stage --name imagenet --source /scratch/imagenet --strategy copy --keep job --lasting 14400s --expect 150000000000 --else-in-place "$DLRUN_RUN_DIR"/in-place-imagenet --job "$run" || failed $?
  ;;
out) out ;;
clean) node clean --job "$run" ;;
leave) leave ;;
keep) # waits for the end: in a job that Slurm cancels no step can be started any more, but this one runs
  ending=
  trap 'ending=1' TERM
  while [[ -z $ending ]]; do
    sleep 3600 &
    wait $!
  done
  kill $! 2>/dev/null
  [[ ! -e $DLRUN_RUN_DIR/kept/none ]] || exit 0
  trap '' TERM # it may come twice
  touch "$DLRUN_RUN_DIR/kept/heard-$index"
  code=0
  leave || code=1
  echo "$code" >"$DLRUN_RUN_DIR/kept/new-$index"
  mv -f "$DLRUN_RUN_DIR/kept/new-$index" "$DLRUN_RUN_DIR/kept/$index"
  ;;
esac
