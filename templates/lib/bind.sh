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
        _dlrun_share_equally
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
  _dlrun_share_equally "$@"
  _dlrun_planned=("$_dlrun_cpus")
  _dlrun_taskset
}

dlrun_count_threads() { # RANKS [CORES]: for a process that starts so many ranks itself: threads for each, and no cores for it alone
  local allowed=() DLRUN_LOCAL_SIZE=$1 DLRUN_LOCAL_RANK=0
  _dlrun_share_equally "${@:2}"
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

_dlrun_share_equally() { # [CORES]: an equal part of the allowed cores for each local rank: sets _dlrun_cpus and DLRUN_THREADS
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
