# shellcheck shell=bash
# Functions of rank.sh: who this process is, its log, its cores and memory, its program, and its end.
#
# Every name begins with dlrun_, _dlrun_ or DLRUN_. Needs bash 4.2, coreutils and grep. In a job directory the other parts
# that its ranks use follow in the same file: each file costs every rank one more open of the shared file system.

_dlrun_memory=()   # numactl and its option, where memory is bound (bind.sh)
_dlrun_wrap=()     # what starts the program inside a container
_dlrun_ending=     # set when this process was asked to end
_dlrun_unheard=    # set when the program did not end when it was asked to
_dlrun_child=      # process id of the program
_dlrun_labeller=   # of what writes to a log that ranks share
_dlrun_carrier=    # the signal by which the early warning comes
_dlrun_watch=      # what is started beside the program
_dlrun_watching=() # process ids of that
_dlrun_ignored=()  # signals that the program starts with ignored
_dlrun_makes_way=  # set where the end may be a preemption: the program is to save its state
_dlrun_told=       # set when the program got its signal to save
_dlrun_is_agent=   # set where the ranks are children of the program

dlrun_identify() { # ROLE RANK LOCAL_RANK PER_NODE COUNT [node]: sets DLRUN_*; from here on all output is in a log, with `node` in its node's
  local left
  _dlrun_late=${EPOCHREALTIME:+${DLRUN_LAUNCHED:+$((${EPOCHREALTIME//[!0-9]/}000 - DLRUN_LAUNCHED))}} # ns since its launch, if clocks agree
  read -r DLRUN_HOST </proc/sys/kernel/hostname # $HOSTNAME may be inherited from another host
  export DLRUN_ROLE=$1 DLRUN_RANK=$2 DLRUN_LOCAL_RANK=$3 DLRUN_WORLD_SIZE=$5 DLRUN_HOST=${DLRUN_HOST%%.*}
  export DLRUN_NODE_RANK=$(($2 / $4)) # ranks fill one node after the other
  left=$(($5 - DLRUN_NODE_RANK * $4))
  export DLRUN_LOCAL_SIZE=$((left < $4 ? left : $4)) DLRUN_THREADS=1
  _dlrun_open_log "$4" "$5" "${6-}"
  if ((${DLRUN_RESTART:-0})); then echo "dlrun: run $((DLRUN_RESTART + 1))"; fi # text above is of earlier ones
}

_dlrun_open_log() { # PER_NODE COUNT [node]: sets _dlrun_log to the file that all output of this process goes to
  local first=$DLRUN_RANK name=$DLRUN_ROLE-$DLRUN_RANK shared=
  if [[ $3 == node ]] && ((DLRUN_LOCAL_SIZE > 1)); then
    shared=1 first=$((DLRUN_NODE_RANK * $1))
    name=$DLRUN_ROLE-$first-$((first + DLRUN_LOCAL_SIZE - 1))
  fi
  if (($2 > 1000)); then name=$((first / 1000))/$name; fi # directories that job.sh has made
  _dlrun_log=$DLRUN_RUN_DIR/logs/$name.log
  exec {_dlrun_launcher}>&1
  if [[ -n $shared ]]; then _dlrun_share_log; else exec >>"$_dlrun_log" 2>&1; fi
}

_dlrun_share_log() { # whole lines, each with its rank before it, to a file in which other ranks write as well
  coproc _dlrun_labels {
    trap '' HUP INT TERM USR1 USR2 # it ends when its last writer does
    unset -v GREP_OPTIONS
    LC_ALL=C exec grep -a -H --line-buffered --label="$DLRUN_ROLE $DLRUN_RANK" '' >>"$_dlrun_log" 2>&1
  }
  # shellcheck disable=SC2154 # coproc sets it
  _dlrun_labeller=$_dlrun_labels_PID
  exec >&"${_dlrun_labels[1]}" 2>&1
  eval "exec ${_dlrun_labels[0]}<&- ${_dlrun_labels[1]}>&-"
  trap _dlrun_close_log EXIT
}

_dlrun_close_log() { # until all that was printed is in it: launchers end what a rank leaves behind
  local waited
  [[ -n $_dlrun_labeller ]] || return 0
  exec >/dev/null 2>&1
  for ((waited = 0; waited < 250; waited++)); do # a process that nothing could end may still hold it
    kill -0 "$_dlrun_labeller" 2>/dev/null || break
    sleep 0.02
  done
}

dlrun_fail() { # EXIT_CODE [REASON]: leave a note for job.sh, then end
  trap '' TERM # another rank may fail at the same time and end this one: the note is complete, or not there
  printf '%s %s %s %s %s%s\n%s' "${_dlrun_ended:-$(date +%s%N)}" "$DLRUN_ROLE" "$DLRUN_RANK" "$DLRUN_HOST" "$1" "${2:+ $2}" \
    "${_dlrun_late-}" >"$DLRUN_RUN_DIR/failures/$DLRUN_ROLE-$DLRUN_RANK"
  exit "$1"
}

dlrun_missing() { # NAME WHAT: a secret could not be read
  echo "dlrun: rank $DLRUN_RANK: secret $1 could not be read: $2"
  dlrun_fail 1
}

dlrun_no_such_point() {
  echo "dlrun: rank $DLRUN_RANK: the sweep has no point '$DLRUN_POINT'"
  dlrun_fail 2
}

dlrun_continue_wandb() { # rank 0 of each start names the same Weights & Biases run, unless the user has named one
  if ((DLRUN_RANK == 0)) && [[ -z ${WANDB_RUN_ID-} ]]; then
    export WANDB_RUN_ID=${DLRUN_JOB_DIR##*/}${DLRUN_POINT:+-$DLRUN_POINT} WANDB_RESUME=allow
  fi
}

# --- The program -----------------------------------------------------------------------------------------------

_dlrun_check_environment() { # PROGRAM: as on the first node? Without it another Python further down PATH would run, for hours
  local place found wanted=
  local -a places=()
  if ((${#_dlrun_wrap[@]})); then return 0; fi # a container has its own (container.sh)
  IFS=: read -ra places <<<"${DLRUN_ENVIRONMENT-}"
  for place in ${places[@]+"${places[@]}"}; do
    if [[ ! -d $place/bin ]]; then dlrun_fail 1 "environment: $place is not there"; fi
  done
  case $1 in
  python) wanted=${DLRUN_PYTHON-} ;;
  python3) wanted=${DLRUN_PYTHON3-} ;;
  esac
  if [[ -n $wanted ]]; then
    found=$(type -P "$1") || true
    if [[ $found != "$wanted" ]]; then dlrun_fail 1 "environment: $1 is ${found:-not there}, on the first node $wanted"; fi
  fi
  if ((DLRUN_LOCAL_RANK)); then return 0; fi # one process of each node is enough
  IFS=: read -ra places <<<"${DLRUN_DIRECTORIES-}"
  for place in ${places[@]+"${places[@]}"}; do
    if [[ -n $place && ! -d $place ]]; then dlrun_fail 1 "environment: $place is not there, and modules or set-up lines have put it into PATH or LD_LIBRARY_PATH"; fi
  done
}

dlrun_run() { # PROGRAM...: run it as this process, pass SIGTERM on, end all that it leaves behind, and note a failure
  _dlrun_check_environment "$1"
  export DLRUN_PROCESS="$DLRUN_RUN_ID $DLRUN_ROLE $DLRUN_RANK" # marks all that the program starts
  exec {_dlrun_launcher}>&-
  trap _dlrun_end TERM
  trap _dlrun_clean_up EXIT
  _dlrun_count_memory_kills
  _dlrun_killed=$_dlrun_kills
  set -- ${_dlrun_memory[@]+"${_dlrun_memory[@]}"} ${_dlrun_wrap[@]+"${_dlrun_wrap[@]}"} "$@"
  if ((${#_dlrun_ignored[@]})); then
    (
      trap '' "${_dlrun_ignored[@]}" # a handler of the program's own still works
      exec "$@"
    ) &
  else
    "$@" &
  fi
  _dlrun_child=$!; if [[ -n $_dlrun_ending ]]; then _dlrun_end; fi # asked to end while it was started
  if [[ -n $_dlrun_carrier ]]; then trap _dlrun_warn "$_dlrun_carrier"; fi
  _dlrun_mind_daemon
  for _dlrun_what in $_dlrun_watch; do
    "$_dlrun_what" &
    _dlrun_watching+=("$!")
  done
  _dlrun_wait_for_program
}

_dlrun_wait_for_program() {
  local status waited
  while :; do
    wait "$_dlrun_child"
    status=$?
    kill -0 "$_dlrun_child" 2>/dev/null || break # a trapped signal ends `wait`, not the program
    if [[ -n $_dlrun_ending ]]; then # after a grace, end it and all that it started
      for ((waited = 0; waited < 60; waited++)); do # with the sweep, less than job.sh waits
        kill -0 "$_dlrun_child" 2>/dev/null || break
        sleep 0.1
      done
      if kill -0 "$_dlrun_child" 2>/dev/null; then
        _dlrun_unheard=1
        _dlrun_below
        kill -KILL "${_dlrun_found[@]}" 2>/dev/null
      fi
    fi
  done
  _dlrun_ended=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000} # ns; who failed first is a matter of milliseconds
  if ((status > 128)); then # a signal may have ended `wait` just before the program ended by itself
    wait "$_dlrun_child"
    status=$?
  fi
  if [[ $_dlrun_watch == *_dlrun_watch_progress* && -e $DLRUN_RUN_DIR/idle/dump ]]; then # job.sh ends this one when the others have shown where they are, too
    for ((waited = 0; waited < 120; waited++)); do
      [[ -z $_dlrun_ending ]] || break
      sleep 0.5
    done
  fi
  if ((status)) && [[ -z $_dlrun_ending ]]; then
    _dlrun_count_memory_kills
    if [[ $_dlrun_kills != "$_dlrun_killed" ]]; then dlrun_fail "$status" 'out of memory'; fi
    dlrun_fail "$status"
  fi
  if ((status == 0)) && [[ -z $_dlrun_ending ]]; then # early against the others, it is why they fail
    _dlrun_ended=${_dlrun_ended:-$(date +%s%N)}
    if ((DLRUN_WORLD_SIZE <= 1000 || DLRUN_RANK == 0)); then
      printf '%s %s %s %s 0\n%s' "$_dlrun_ended" "$DLRUN_ROLE" "$DLRUN_RANK" "$DLRUN_HOST" "${_dlrun_late-}" \
        >"$DLRUN_RUN_DIR/ended/$DLRUN_ROLE-$DLRUN_RANK"
    else # in its log, which is open: so many files more would burden the file system
      echo "dlrun: $DLRUN_ROLE $DLRUN_RANK on $DLRUN_HOST, which began ${_dlrun_late:-0} ns after its launch, ended with exit code 0 at $_dlrun_ended ns"
    fi
  fi
  exit "$status"
}

_dlrun_mind_daemon() { # Slurm notices only after minutes that the daemon of a step is gone, which has started all ranks of a node
  local name
  { read -r name </proc/$PPID/comm; } 2>/dev/null || name=${SLURM_STEP_ID:+slurmstepd} # it is gone already
  if [[ $name/$DLRUN_LOCAL_RANK == slurmstepd/0 ]]; then _dlrun_watch+=' _dlrun_watch_daemon'; fi
}

_dlrun_watch_daemon() {
  local quiet stat word found
  trap '' HUP USR1 USR2
  exec {quiet}<> <(:) # nothing comes from there: a pause without a process
  while { read -r stat <"/proc/$$/stat"; } 2>/dev/null && [[ ${stat##*) } == ?" $PPID "* ]]; do
    read -r -t 3 -u "$quiet" || true
  done
  kill -0 "$$" 2>/dev/null || return 0
  trap '' TERM
  (dlrun_fail 1 "node failed: slurmstepd on $DLRUN_HOST, which had started rank $DLRUN_RANK, is gone")
  found=(/proc/[0-9]*/environ)
  for word in "DLRUN_RUN_ID=$DLRUN_RUN_ID" "SLURM_JOB_ID=${SLURM_JOB_ID-}" "SLURM_STEP_ID=${SLURM_STEP_ID-}"; do
    mapfile -t found < <(grep -lszxF "$word" ${found[@]+"${found[@]}"} /dev/null)
  done
  for word in ${found[@]+"${found[@]}"}; do # also the other ranks of this node: Slurm can no longer end them
    kill -TERM "${word//[!0-9]/}" 2>/dev/null
  done
  kill -TERM "$$"
}

_dlrun_end() { # SIGTERM: the program is asked to end, or where nothing has failed and the job is preempted, to save its state
  _dlrun_ending=1
  if [[ -n $_dlrun_makes_way && -z $_dlrun_told ]] && ! compgen -G "$DLRUN_RUN_DIR/failures/*" >/dev/null; then
    _dlrun_warn
  else
    kill -TERM "$_dlrun_child" 2>/dev/null
  fi
}

_dlrun_below() { # sets _dlrun_found to the program and all below it, and _dlrun_parent
  # shellcheck source=processes.sh
  declare -F _dlrun_tree >/dev/null || source "$DLRUN_JOB_DIR/lib/processes.sh"
  _dlrun_tree "$_dlrun_child"
}

_dlrun_clean_up() {
  if ((${#_dlrun_watching[@]})); then kill "${_dlrun_watching[@]}" 2>/dev/null; fi
  _dlrun_sweep "$DLRUN_PROCESS"
  _dlrun_close_log
}

_dlrun_count_memory_kills() { # sets _dlrun_kills to how many processes of this cgroup the kernel has ended for want of memory
  local controllers path base file name count
  _dlrun_kills=
  while IFS=: read -r _ controllers path; do
    case ,$controllers, in
    ,,) base=/sys/fs/cgroup file=memory.events ;;
    *,memory,*) base=/sys/fs/cgroup/memory file=memory.oom_control ;;
    *) continue ;;
    esac
    while [[ ! -r $base$path/$file && $path == /*/* ]]; do path=/${path#/*/}; done # a container sees a part of the tree
    [[ -r $base$path/$file ]] || continue
    while read -r name count; do
      if [[ $name == oom_kill ]]; then _dlrun_kills+=" $count"; fi
    done <"$base$path/$file"
  done </proc/self/cgroup
}

_dlrun_sweep() { # MARK: end what the program has left, also what it had detached: SIGTERM, then SIGKILL
  local found tries mark none="" signal=${_dlrun_unheard:+KILL} job=${SLURM_JOB_ID:+SLURM_JOB_ID=$SLURM_JOB_ID}
  job=${job:-${PBS_JOBID:+PBS_JOBID=$PBS_JOBID}} # the program may have submitted another
  for ((tries = 0; tries < 25; tries++)); do
    found=(/proc/[0-9]*/environ)
    for mark in "DLRUN_PROCESS=$1" "DLRUN_RUN_DIR=$DLRUN_RUN_DIR" ${job:+"$job"}; do # another cluster may count as this one does
      if ((${#found[@]})); then mapfile -t found < <(unset DLRUN_PROCESS && grep -lszxF -e "$mark" "${found[@]}"); fi
    done
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

# shellcheck shell=bash
# Binds this process as a rank: cores, memory policy, GPUs. The same text in every job directory and in every script that
# `dlrun tune-affinity --format wrapper` prints; every name begins with dlrun_, _dlrun_ or DLRUN_. Needs bash 4.2 and
# util-linux (taskset); numactl where memory is bound. A fault never ends the rank: it is reported, and the rank continues.

_dlrun_planned=()    # the cores of the plan, and numactl's option for memory
_dlrun_cpus=         # what this process is bound to; empty: nothing
_dlrun_started_with= # the hardware threads that it could use before
_dlrun_memory=()     # numactl and its option, where memory is bound
_dlrun_gpus=         # VARIABLE=INDEXES, where this process was given GPUs of its own
_dlrun_shared=       # set where the planned cores were not granted
_dlrun_granted=      # the hardware threads of the job; empty: those that this process may use

_dlrun_note() { # TEXT: a line about this rank
  echo "dlrun: rank ${DLRUN_RANK:-$DLRUN_LOCAL_RANK of this node}: $1" >&2
}

dlrun_bind() { # THREADS CPUS [NUMACTL_OPTION]: bind to the planned cores; where the job was not granted them, share what it has
  local allowed=() granted range cpu
  export DLRUN_THREADS=$1
  _dlrun_cpus=$2 _dlrun_planned=("${@:2}")
  if [[ -n ${3-} ]]; then _dlrun_memory=(numactl "$3" --); fi
  _dlrun_allowed_cpus
  _dlrun_started_with="${allowed[*]}"
  granted=" ${allowed[*]} "
  for range in ${2//,/ }; do
    for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do
      if [[ $granted != *" $cpu "* ]]; then
        _dlrun_note "core $cpu of the plan was not granted to this job; the ranks share the granted cores instead"
        _dlrun_memory=() _dlrun_shared=1
        unset -v DLRUN_COMM_CPUS DLRUN_LOADER_CPUS
        _dlrun_share
        break 2
      fi
    done
  done
  if ((${#_dlrun_memory[@]})) && ! "${_dlrun_memory[@]}" true >/dev/null 2>&1; then
    _dlrun_note "numactl is missing or rejected $3; using the default (first-touch) memory policy"
    _dlrun_memory=()
  fi
  _dlrun_taskset
}

dlrun_share_cores() { # [CORES]: bind to an equal part of the job's cores here; CORES is what each rank asked for on a shared node
  local allowed=()
  _dlrun_share "$@"
  _dlrun_planned=("$_dlrun_cpus")
  _dlrun_taskset
}

dlrun_count_threads() { # RANKS [CORES]: for a process that starts so many ranks itself: threads for each, and no cores for it alone
  local allowed=() DLRUN_LOCAL_SIZE=$1 DLRUN_LOCAL_RANK=0
  _dlrun_share "${@:2}"
  _dlrun_cpus=
}

dlrun_show_gpus() { # VARIABLE INDEXES: show this rank its own GPUs alone, within what the scheduler shows it
  _dlrun_own_gpus "$@" || return 0
  # shellcheck disable=SC2034 # for checks.sh
  _dlrun_gpus=$1=${!1}
}

_dlrun_own_gpus() { # VARIABLE INDEXES; 1 if they mean nothing to this rank's runtime
  local shown=${!1-} wanted index names=() own=() per first
  if [[ $1 == ZE_AFFINITY_MASK && ${ZE_FLAT_DEVICE_HIERARCHY-} == COMPOSITE && $shown != *.* ]]; then
    _dlrun_note "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE counts cards, and the plan counts tiles: $1 is left as it is"
    return 1
  fi
  IFS=, read -ra wanted <<<"$2"
  IFS=, read -ra names <<<"$shown"
  if [[ -z $shown ]]; then
    if [[ -z ${!1+set} ]]; then export "$1=$2"; fi # set and empty: the job was given none
    return 0
  fi
  for index in "${wanted[@]}"; do
    if [[ $shown != *[!0-9,]* ]]; then
      if [[ ,$shown, == *,$index,* ]]; then own+=("$index"); fi
    elif ((index < ${#names[@]})); then
      own+=("${names[index]}") # names such as GPU-1a2b: the n-th is the n-th GPU
    fi
  done
  if ((${#own[@]} < ${#wanted[@]})); then # the job was given other GPUs than the plan's
    per=${#wanted[@]} first=$((DLRUN_LOCAL_RANK * per))
    if ((${#names[@]} < DLRUN_LOCAL_SIZE * per)); then return 0; fi # this rank's alone: the scheduler has done it
    own=("${names[@]:first:per}")
  fi
  printf -v shown '%s,' "${own[@]}"
  export "$1=${shown%,}"
}

_dlrun_taskset() {
  if [[ -n $_dlrun_cpus ]] && ! taskset -p -c "$_dlrun_cpus" $$ >/dev/null; then
    _dlrun_note "could not be bound to cores $_dlrun_cpus"
  fi
}

_dlrun_allowed_cpus() { # sets allowed to the hardware threads that this process may use
  local lines line range cpu
  mapfile -t lines </proc/self/status # line by line, `read` would make the kernel write it again each time
  for line in "${lines[@]}"; do
    if [[ $line == Cpus_allowed_list:* ]]; then
      _dlrun_allowed_list=${_dlrun_granted:-${line##*[[:blank:]]}}
      for range in ${_dlrun_allowed_list//,/ }; do
        for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do allowed+=("$cpu"); done
      done
    fi
  done
}

_dlrun_share() { # [CORES]: an equal part of the allowed cores for each local rank: sets _dlrun_cpus and DLRUN_THREADS
  local cpu siblings core cores=() size online
  local -A threads=()
  allowed=()
  _dlrun_allowed_cpus
  for cpu in "${allowed[@]}"; do
    siblings=/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list
    core=$cpu
    if [[ -r $siblings ]]; then read -r core <"$siblings"; fi
    if [[ -z ${threads[$core]-} ]]; then cores+=("$core"); fi
    threads[$core]+=,$cpu
  done
  _dlrun_cpus=
  read -r online </sys/devices/system/cpu/online
  if [[ -n ${1-} && $_dlrun_allowed_list == "$online" ]] && (($1 * DLRUN_LOCAL_SIZE < ${#cores[@]})); then
    export DLRUN_THREADS=$1 # no scheduler separates the jobs of this node: which cores are free is unknown
    return 0
  fi
  size=$((${#cores[@]} / DLRUN_LOCAL_SIZE))
  export DLRUN_THREADS=$((size > 0 ? size : 1))
  if ((size == 0)); then return 0; fi # fewer cores than ranks: leave them to the kernel
  for core in "${cores[@]:DLRUN_LOCAL_RANK * size:size}"; do _dlrun_cpus+=${threads[$core]}; done
  _dlrun_cpus=${_dlrun_cpus#,}
}

# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Beside the program, one process of each node: what the node's ranks use, in usage/HOST.jsonl. Without Python 3 there is none.

dlrun_measure() { # [PATH]: one of the node's processes starts it, once its program has started; PATH: where checkpoints appear
  ((DLRUN_LOCAL_RANK == 0)) || return 0
  _dlrun_checkpoints=${1-}
  if [[ $_dlrun_checkpoints == [!/]* ]]; then _dlrun_checkpoints=$PWD/$_dlrun_checkpoints; fi
  _dlrun_watch+=' _dlrun_sample'
}

_dlrun_sample() { # an interpreter of the job's environment; the user's modules are not imported (-I, -S)
  cd / && exec python3 -I -S - $$ "$_dlrun_log" "$_dlrun_checkpoints" >/dev/null 2>&1 <"$DLRUN_JOB_DIR/usage.py" # bash opens it once, Python three times
}
