#!/bin/bash
# What each process of job checked runs: who am I, which cores, which variables, then the program.
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
  per_node=4 count=16
  ;;
esac
export DLRUN_NODE_RANK=$((DLRUN_RANK / per_node)) # ranks fill one node after the other
export DLRUN_WORLD_SIZE=$count # processes of this role
left=$((count - DLRUN_NODE_RANK * per_node))
export DLRUN_LOCAL_SIZE=$((left < per_node ? left : per_node)) # processes of this role on this node

exec {launcher_output}>&1 # for what is said once for the whole node
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
# --- Cores: the node is the job's alone and its topology is known (gpu)

DLRUN_THREADS=12
cpus=
memory=()
case $role:$DLRUN_LOCAL_RANK in
rank:0)
  cpus=0-11
  memory=(numactl --preferred=0 --)
  export CUDA_VISIBLE_DEVICES=0 # the GPUs beside these cores
  ;;
rank:1)
  cpus=12-23
  memory=(numactl --preferred=0 --)
  export CUDA_VISIBLE_DEVICES=1 # the GPUs beside these cores
  ;;
rank:2)
  cpus=24-35
  memory=(numactl --preferred=1 --)
  export CUDA_VISIBLE_DEVICES=2 # the GPUs beside these cores
  ;;
rank:3)
  cpus=36-47
  memory=(numactl --preferred=1 --)
  export CUDA_VISIBLE_DEVICES=3 # the GPUs beside these cores
  ;;
esac
planned=$cpus wanted=("${memory[@]}")
allowed_cpus
export DLRUN_ALLOWED="${allowed[*]}" # as it was started: tells who took away what is missing
if [[ -n $cpus ]]; then # the plan holds only if the job was granted these cores
  allowed_cpus
  granted=" ${allowed[*]} "
  for range in ${cpus//,/ }; do
    for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do
      if [[ $granted != *" $cpu "* ]]; then
        echo "dlrun: rank $DLRUN_RANK: core $cpu of the plan was not granted to this job; sharing out what was"
        memory=()
        share_cores
        break 2
      fi
    done
  done
fi
if ((${#memory[@]})) && ! "${memory[@]}" true >/dev/null 2>&1; then
  echo "dlrun: rank $DLRUN_RANK: numactl is missing or refuses ${memory[1]}; memory goes where it is first touched"
  memory=()
fi
if [[ -n $cpus ]] && ! taskset -p -c "$cpus" $$ >/dev/null; then
  echo "dlrun: rank $DLRUN_RANK: could not be bound to cores $cpus"
fi
export DLRUN_THREADS # cores of this process

# --- Is this process where the plan puts it? ----------------------------------------------------------------

numbers() { # LIST: sets found to its numbers, with blanks around each
  local range number
  found=' '
  for range in ${1//,/ }; do
    for ((number = ${range%-*}; number <= ${range#*-}; number++)); do found+="$number "; done
  done
}

check_cpus() {
  local line lines number found wanted_cpus may=
  mapfile -t lines </proc/self/status # line by line, `read` would make the kernel write it anew each time
  for line in "${lines[@]}"; do
    if [[ $line == Cpus_allowed_list:* ]]; then may=${line##*[[:blank:]]}; fi
  done
  if [[ -z $planned ]]; then
    fault+=", has no cores of its own: $DLRUN_LOCAL_SIZE ranks share CPUs $may"
    return
  fi
  numbers "$planned"
  wanted_cpus=$found
  numbers "$may"
  for number in $wanted_cpus; do
    if [[ $found == *" $number "* ]]; then found=${found/ $number / }; else found+='missing '; fi
  done
  if [[ $found != ' ' ]]; then fault+=", may use CPUs $may, not $planned"; fi
}

check_memory() {
  local policy
  ((${#wanted[@]})) || return 0
  policy=$("${memory[@]}" head -n 1 /proc/self/numa_maps 2>/dev/null) || policy='- unknown'
  policy=${policy#* } policy=${policy%% *}
  case ${wanted[1]}:$policy in
  --membind=*:bind* | --preferred*:prefer*) ;;
  *) fault+=", has the memory policy $policy, not ${wanted[1]#--}" ;;
  esac
}

check_gpus() { # what its variable lets it see; without one, what the node has
  local visible=${CUDA_VISIBLE_DEVICES-${ROCR_VISIBLE_DEVICES-${ZE_AFFINITY_MASK-all}}} commas devices
  case $visible in
  all)
    devices=(/dev/nvidia[0-9]*)
    if [[ -e ${devices[0]} ]] && ((${#devices[@]} < 4)); then
      fault+=", finds ${#devices[@]} GPUs on its node, not 4"
    fi
    ;;
  '' | -1 | NoDevFiles) fault+=", sees none of its 1 GPUs" ;;
  *)
    commas=${visible//[!,]/}
    if ((${#commas} + 1 < 1)); then
      fault+=", sees the GPUs $visible, fewer than 1"
    fi
    ;;
  esac
}

tell_placement() { # the last process of a node that gets here prints the node's one line; false if this is another
  local board=/dev/shm/dlrun-$UID-$DLRUN_RUN_ID line said right=0 wrong=
  line="$DLRUN_LOCAL_RANK $fault"
  if [[ -L $board || -e $board && ! -O $board ]] || ! { printf '%s\n' "$line" >>"$board"; } 2>/dev/null; then
    said=("$line") # nowhere to meet: each for itself
  else
    { mapfile -t said <"$board"; } 2>/dev/null || return 1 # the last one has read and removed it
    if ((${#said[@]} < DLRUN_LOCAL_SIZE)) || [[ ${said[-1]} != "$line" ]]; then return 1; fi
    rm -f -- "$board"
  fi
  for line in "${said[@]}"; do
    if [[ -n ${line#* } ]]; then
      wrong+="; $role $((DLRUN_NODE_RANK * per_node + ${line%% *})) ${line#* }"
    else
      right=$((right + 1))
    fi
  done
  printf 'dlrun: %s: %s of %s as planned%s\n' "$DLRUN_HOST" "$right" "${#said[@]}" "$wrong" >&"$launcher_output"
}

if [[ $role == rank ]]; then
  fault=
  check_cpus
  check_memory
  check_gpus
  fault=${fault#, }
  if [[ -n $fault ]]; then echo "dlrun: rank $DLRUN_RANK $fault"; fi
  if ! tell_placement && [[ -n $fault ]]; then # the node's line comes first
    for ((tries = 0; tries < 100; tries++)); do
      [[ -e /dev/shm/dlrun-$UID-$DLRUN_RUN_ID ]] || break
      sleep 0.1
    done
  fi
  if [[ -n $fault ]]; then fail 1 "placement: $fault"; fi
fi
exec {launcher_output}>&-

command=()
case $role in
rank)
  export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
  export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id, found free on rank 0's node [PyTorch documentation, torch.distributed]
  export WORLD_SIZE=16 # 4 nodes × 4 ranks [PyTorch documentation, torch.distributed]
  export RANK="$DLRUN_RANK" # as the launcher counts [PyTorch documentation, torch.distributed]
  export LOCAL_RANK="$DLRUN_LOCAL_RANK" # as the launcher counts on this node [PyTorch documentation, torch.distributed]
  export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
  export GROUP_RANK="$DLRUN_NODE_RANK" # which node this is, as torchrun calls it [PyTorch documentation, torch.distributed]
  export GLOO_SOCKET_IFNAME=ib0 # Gloo talks over the site's fabric, not the interface that the host name happens to mean [PyTorch documentation, torch.distributed]
  command=(python train.py)
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

below() { # PID: sets tree to it and all below it, and ticks to the CPU time that these have used
  local stat rest pid found=1 used
  local -A parent=() in_tree=([$1]=1)
  for stat in /proc/[0-9]*/stat; do
    { read -r rest <"$stat"; } 2>/dev/null || continue
    pid=${rest%% *} rest=${rest##*) } rest=${rest#* }
    parent[$pid]=${rest%% *}
  done
  while ((found)); do
    found=0
    for pid in "${!parent[@]}"; do
      if [[ -z ${in_tree[$pid]-} && -n ${in_tree[${parent[$pid]}]-} ]]; then in_tree[$pid]=1 found=1; fi
    done
  done
  tree=("${!in_tree[@]}") ticks=0
  for pid in "${tree[@]}"; do
    { read -r rest <"/proc/$pid/stat"; } 2>/dev/null || continue
    read -ra used <<<"${rest##*) }"
    ticks=$((ticks + used[11] + used[12] + used[13] + used[14])) # utime, stime and those of ended children (proc(5))
  done
}

watch_progress() { # PID: mark this rank while nothing is written or computed; on request, write where it stands
  local last=$SECONDS before=0 written=-1 size pause=30 tree ticks
  local mark=$DLRUN_RUN_DIR/idle/$role-$DLRUN_RANK
  while kill -0 "$1" 2>/dev/null; do
    below "$1"
    size=$(stat -c %s "$DLRUN_RUN_DIR/logs/$role-$DLRUN_RANK.log")
    if ((size != written || ticks - before > pause || before > ticks)); then # a hundredth of one core is no progress
      last=$SECONDS written=$size
      if [[ -e $mark ]]; then rm -f "$mark"; fi
    elif ((SECONDS - last >= 600)); then
      [[ -e $mark ]] || : >"$mark"
    fi
    before=$ticks
    if [[ -e $mark && -e $DLRUN_RUN_DIR/dump ]]; then
      write_stacks "${tree[@]}"
      return
    fi
    sleep "$([[ -e $mark ]] && echo 1 || echo "$pause")"
  done
}

write_stacks() { # PID...: where each thread waits, and Python's own view of it
  local pid task spy out=$DLRUN_RUN_DIR/stacks/$role-$DLRUN_RANK.txt python=()
  spy=$(command -v py-spy || true)
  {
    echo "$role $DLRUN_RANK on $DLRUN_HOST"
    for pid in "$@"; do
      printf '\nprocess %s: %s\n' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline")"
      for task in "/proc/$pid/task"/*; do
        printf '  thread %s (%s) waits in %s; system call %s\n' "${task##*/}" "$(<"$task/comm")" "$(<"$task/wchan")" "$(<"$task/syscall")"
      done
      [[ $(readlink "/proc/$pid/exe") == */python* ]] || continue
      python+=("$pid")
      if [[ -n $spy ]] && timeout 20 "$spy" dump --pid "$pid"; then unset 'python[-1]'; fi
    done
  } >"$out.new" 2>/dev/null
  mv "$out.new" "$out"
  if ((${#python[@]})); then # without py-spy, Python's faulthandler writes its stacks to the log, and ends
    for pid in "${python[@]}"; do prlimit --pid "$pid" --core=0 2>/dev/null; done
    kill -ABRT "${python[@]}" 2>/dev/null
  fi
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
  exec "${memory[@]}" "${command[@]}"
) &
child=$!
told=
early() { # tell the program to save its state: once, and it alone, not the processes that it started
  local ranks=("$child")
  [[ -z $told ]] || return
  told=1
  kill -s USR1 "${ranks[@]}" 2>/dev/null
}
watch_progress "$child" &
watching=$!
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
kill "$watching" 2>/dev/null
if [[ -e $DLRUN_RUN_DIR/dump ]]; then # the others, too, are to say where they stand
  for ((waited = 0; waited < 120; waited++)); do
    [[ -z $ending ]] || break
    sleep 0.5
  done
fi
if ((status)) && [[ -z $ending ]]; then
  reason=
  memory_kills
  if [[ $kills != "$killed" ]]; then reason='out of memory'; fi
  fail "$status" "$reason"
fi
exit "$status"
