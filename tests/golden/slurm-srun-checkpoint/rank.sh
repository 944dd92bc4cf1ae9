#!/bin/bash
# What each process of job checkpointed runs: who am I, which cores, which variables, then the program.
# The launcher (srun) starts it unbound, once for each process: rank.sh ROLE

# shellcheck disable=SC2016,SC2054,SC2089,SC2090,SC2153,SC2317,SC2329 # literal dollars, commas and quotes are meant; traps call functions
set -uo pipefail

trap early USR2 # the early warning comes as this signal, to this script alone
early() { :; }        # replaced once there is a program to tell
late=${EPOCHREALTIME:+${DLRUN_LAUNCHED:+$((${EPOCHREALTIME//[!0-9]/}000 - DLRUN_LAUNCHED))}} # ns since its launch, if the clocks of both nodes agree
role=$1
export DLRUN_ROLE=$role # what this process is for
export DLRUN_RANK="$SLURM_PROCID" # as the launcher counts
export DLRUN_LOCAL_RANK="$SLURM_LOCALID" # as the launcher counts on this node
read -r DLRUN_HOST </proc/sys/kernel/hostname # $HOSTNAME may be inherited from another host
export DLRUN_HOST=${DLRUN_HOST%%.*} # this node

case $role in
rank)
  per_node=1 count=2
  ;;
esac
export DLRUN_NODE_RANK=$((DLRUN_RANK / per_node)) # ranks fill one node after the other
export DLRUN_WORLD_SIZE=$count # processes of this role
left=$((count - DLRUN_NODE_RANK * per_node))
export DLRUN_LOCAL_SIZE=$((left < per_node ? left : per_node)) # processes of this role on this node

# Everything this process prints is in one file that no one else writes to.
exec >>"$DLRUN_RUN_DIR/logs/$role-$DLRUN_RANK.log" 2>&1
if ((${DLRUN_RESTART:-0})); then echo "dlrun: run $((DLRUN_RESTART + 1))"; fi # what stands above is of earlier ones

fail() { # EXIT_CODE [REASON]: leave a note for job.sh, then end
  trap '' TERM # another rank may have failed as well and ends this one now: the note is whole, or not there
  printf '%s %s %s %s %s%s\n%s' "${ended:-$(date +%s%N)}" "$role" "$DLRUN_RANK" "$DLRUN_HOST" "$1" "${2:+ $2}" "$late" \
    >"$DLRUN_RUN_DIR/failures/$role-$DLRUN_RANK"
  exit "$1"
}

allowed_cpus() { # sets allowed to the hardware threads that this process may use
  local lines line range cpu
  allowed=()
  mapfile -t lines </proc/self/status
  for line in "${lines[@]}"; do
    if [[ $line == Cpus_allowed_list:* ]]; then
      line=${line##*[[:blank:]]}
      for range in ${line//,/ }; do
        for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do allowed+=("$cpu"); done
      done
    fi
  done
}

share_cores() { # an equal part of the allowed cores for each local rank: sets cpus and DLRUN_THREADS
  local cpu siblings core cores=() size begin
  local -A threads=()
  allowed_cpus
  for cpu in "${allowed[@]}"; do
    siblings=/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list
    core=$cpu
    if [[ -r $siblings ]]; then read -r core <"$siblings"; fi
    if [[ -z ${threads[$core]-} ]]; then cores+=("$core"); fi
    threads[$core]+=,$cpu
  done
  size=$((${#cores[@]} / DLRUN_LOCAL_SIZE))
  DLRUN_THREADS=$((size > 0 ? size : 1))
  cpus=
  if ((size == 0)); then return; fi # fewer cores than ranks: leave them to the kernel
  begin=$((DLRUN_LOCAL_RANK * size))
  for core in "${cores[@]:begin:size}"; do cpus+=${threads[$core]}; done
  cpus=${cpus#,}
}
# --- Cores: the site does not describe these nodes: ranks get equal parts of what they find

DLRUN_THREADS=1
cpus=
share_cores
if [[ -n $cpus ]] && ! taskset -p -c "$cpus" $$ >/dev/null; then
  echo "dlrun: rank $DLRUN_RANK: could not be bound to cores $cpus"
fi
export DLRUN_THREADS # cores of this process
export OMP_NUM_THREADS="$DLRUN_THREADS" # one for each core that the rank was given [OpenMP 5.2, chapter 21]

command=()
case $role in
rank)
  export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
  export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id, found free on rank 0's node [PyTorch documentation, torch.distributed]
  export WORLD_SIZE=2 # 2 nodes × 1 rank [PyTorch documentation, torch.distributed]
  export RANK="$DLRUN_RANK" # as the launcher counts [PyTorch documentation, torch.distributed]
  export LOCAL_RANK="$DLRUN_LOCAL_RANK" # as the launcher counts on this node [PyTorch documentation, torch.distributed]
  export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
  export GROUP_RANK="$DLRUN_NODE_RANK" # which node this is, as torchrun calls it [PyTorch documentation, torch.distributed]
  command=(python train.py --resume)
  ;;
esac

if ((DLRUN_RANK == 0)) && [[ -z ${WANDB_RUN_ID-} ]]; then
  export WANDB_RUN_ID=${DLRUN_JOB_DIR##*/}${DLRUN_POINT:+-$DLRUN_POINT} WANDB_RESUME=allow # every run of this job goes on in one W&B run
fi

# --- Run ----------------------------------------------------------------------------------------------------

end() { # SIGTERM: ask the program to end
  ending=1
  kill -TERM "$child" 2>/dev/null
}

kill_tree() { # PID: it and all below it
  local stat pid rest
  for stat in /proc/[0-9]*/stat; do
    { read -r pid rest <"$stat"; } 2>/dev/null || continue
    rest=${rest##*) } rest=${rest#* }
    if [[ ${rest%% *} == "$1" ]]; then kill_tree "$pid"; fi
  done
  kill -KILL "$1" 2>/dev/null
}

memory_kills() { # sets kills to how many processes beside this one the kernel has ended because memory ran out
  local controllers path base file name count
  kills=
  while IFS=: read -r _ controllers path; do
    case ,$controllers, in
    ,,) base=/sys/fs/cgroup file=memory.events ;;
    *,memory,*) base=/sys/fs/cgroup/memory file=memory.oom_control ;;
    *) continue ;;
    esac
    while [[ ! -r $base$path/$file && $path == /*/* ]]; do path=/${path#/*/}; done # a container sees a part of the tree
    [[ -r $base$path/$file ]] || continue
    while read -r name count; do
      if [[ $name == oom_kill ]]; then kills+=" $count"; fi
    done <"$base$path/$file"
  done </proc/self/cgroup
}

export DLRUN_PROCESS="$DLRUN_RUN_ID $role $DLRUN_RANK" # marks all that the program starts

sweep() { # end what the program has left, also what it had detached: SIGTERM, then SIGKILL
  local found tries none="" signal=${unheard:+KILL} job=${SLURM_JOB_ID:+SLURM_JOB_ID=$SLURM_JOB_ID}
  job=${job:-${PBS_JOBID:+PBS_JOBID=$PBS_JOBID}}
  for ((tries = 0; tries < 25; tries++)); do
    mapfile -t found < <(unset DLRUN_PROCESS; grep -lszxF "DLRUN_PROCESS=$1" /proc/[0-9]*/environ)
    if ((${#found[@]})) && [[ -n $job ]]; then # not another job, which the program has submitted
      mapfile -t found < <(unset DLRUN_PROCESS; grep -lszxF "$job" "${found[@]}")
    fi
    if ((${#found[@]} == 0)); then
      [[ -z $none ]] || return 0
      none=1 # a process that is just becoming another program shows no environment: look again
      sleep 0.01
      continue
    fi
    none=
    found=("${found[@]#/proc/}")
    kill -s "${signal:-TERM}" "${found[@]%/environ}" 2>/dev/null
    sleep 0.1
    if ((tries > 20)); then signal=KILL; fi
  done
}

ending=
unheard= # set if the program did not end when it was asked to
trap end TERM
trap 'sweep "$DLRUN_PROCESS"' EXIT
memory_kills
killed=$kills
(
  trap '' USR2 USR1 # whoever signals all processes of this rank ends none; a handler of the program's own still works
  exec "${command[@]}"
) &
child=$!
told=
early() { # tell the program to save its state: once, and it alone, not the processes that it started
  local ranks=("$child")
  [[ -z $told ]] || return
  told=1
  ((DLRUN_RANK == 0)) || return
  kill -s USR1 "${ranks[@]}" 2>/dev/null
}
while :; do
  wait "$child"
  status=$?
  kill -0 "$child" 2>/dev/null || break # a trapped signal ends `wait`, not the program
  if [[ -n $ending ]]; then # after a grace, end it and all that it started
    for ((waited = 0; waited < 60; waited++)); do # with the sweep, less than job.sh waits
      kill -0 "$child" 2>/dev/null || break
      sleep 0.1
    done
    if kill -0 "$child" 2>/dev/null; then unheard=1; fi
    kill_tree "$child"
  fi
done
ended=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000} # ns; who failed first is a matter of milliseconds
if ((status > 128)); then # a signal may have ended `wait` just before the program ended by itself
  wait "$child"
  status=$?
fi
if ((status)) && [[ -z $ending ]]; then
  reason=
  memory_kills
  if [[ $kills != "$killed" ]]; then reason='out of memory'; fi
  fail "$status" "$reason"
fi
exit "$status"
