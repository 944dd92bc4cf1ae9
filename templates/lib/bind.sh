# shellcheck shell=bash
# Binds this process as a rank: cores, memory policy, GPUs. The same text in every job directory and in every script that
# `dlrun tune-affinity --format wrapper` prints; every name begins with dlrun_, _dlrun_ or DLRUN_. Needs bash 4.2 and
# util-linux (taskset); numactl where memory is bound. A fault never ends the rank: it is reported, and the rank continues.
#
# What the ranks of a node decide together is decided from what is the same for all of them: the plan of the node and the
# job's grant on it, never the mask of a single rank. If all that the plan has is granted, each rank takes its row of the plan;
# otherwise `dlrun_grant` divides the whole grant among them.

_dlrun_rank_name=    # the variable that the local rank is from
_dlrun_planned=()    # the cores of the plan, and numactl's option for memory
_dlrun_cpus=         # what this process is bound to; empty: nothing
_dlrun_started_with= # the hardware threads that it could use before
_dlrun_memory=()     # numactl and its option, where memory is bound
_dlrun_gpus=         # VARIABLE=INDEXES, where this process was given GPUs of its own
_dlrun_shared=       # set where the ranks divide the job's cores, because the plan's were not granted
_dlrun_because=      # why they do
_dlrun_alone=        # set where this rank knows its own mask only, which the launcher has given it
_dlrun_granted=      # the hardware threads of the job; empty: found out here
_dlrun_comm_of_node= # where they divide them: the communication cores of all ranks, in order
_dlrun_gpu_rows='' _dlrun_gpu_names='' # the GPUs of all rows of the plan, and those of all ranks where they divide what is visible
_dlrun_gpus_decided= # set where the GPUs of the rows do not count
_dlrun_gpus_by=      # the variable that shows GPUs, if it is not the plan's
_dlrun_system=/sys/devices/system _dlrun_groups=/sys/fs/cgroup _dlrun_driver=/proc/driver/nvidia _dlrun_devices=/sys/bus/pci/devices # a test has others

_dlrun_note() { echo "dlrun: rank ${DLRUN_RANK:-$DLRUN_LOCAL_RANK of this node}: $1" >&2; } # TEXT: a line about this rank

_dlrun_note_node() { # TEXT: a line about this node, by one of its ranks
  if ((DLRUN_LOCAL_RANK == 0)); then echo "dlrun: node ${DLRUN_HOST:-${HOSTNAME%%.*}}: $1" >&2; fi
}

_dlrun_note_alone() {
  _dlrun_note_node "the launcher has bound each rank, and what was granted to this job cannot be seen: they stay so (this one on CPUs $_dlrun_cpus, $DLRUN_THREADS threads)${_dlrun_gpu_names:+ and divide GPUs $_dlrun_gpu_names}; with the launcher's binding off, such as \`--cpu-bind none\`, they divide all"
}

dlrun_find_local_rank() { # sets DLRUN_LOCAL_RANK to what the innermost launcher says; empty: none. Launchers pass on the variables of outer ones
  local name pid=$PPID first='' words=() word allowed
  _dlrun_rank_name=
  for name in "${_dlrun_names_of_launchers[@]}"; do
    if [[ ! ${!name-} =~ ^[0-9]+$ || ($name == SLURM_LOCALID && -z ${SLURM_STEP_NUM_TASKS-}) ]]; then continue; fi
    first=${first:-${!name}} _dlrun_rank_name=${_dlrun_rank_name:-$name}
    words+=("$name=${!name}")
  done
  DLRUN_LOCAL_RANK=$first
  while [[ -r /proc/$pid/environ ]] && ((${#words[@]} > 1 && pid > 1)); do # the launcher's own is what the nearest process above does not have
    for word in "${words[@]}"; do
      if ! LC_ALL=C grep -qszxF -e "$word" "/proc/$pid/environ"; then
        DLRUN_LOCAL_RANK=${word#*=} _dlrun_rank_name=${word%%=*}
        return 0
      fi
    done
    { _dlrun_allowed_cpus "$pid"; } 2>/dev/null
    pid=$_dlrun_parent
  done
}

dlrun_find_local_size() { # COUNT: sets DLRUN_LOCAL_SIZE to the ranks on this node by the launcher that gave the local rank, else to COUNT
  local size='' word
  case $_dlrun_rank_name in
  *_COMM_WORLD_LOCAL_RANK | DLRUN_LOCAL_RANK | PMI_LOCAL_RANK) word=${_dlrun_rank_name%RANK}SIZE size=${!word-} ;;
  LOCAL_RANK) size=${LOCAL_WORLD_SIZE-} ;;
  MPI_LOCALRANKID) size=${MPI_LOCALNRANKS-} ;;
  PALS_LOCAL_RANKID) size=${PALS_LOCAL_SIZE:-${PMI_LOCAL_SIZE-}} ;;
  SLURM_LOCALID) _dlrun_count_on_node "${SLURM_STEP_TASKS_PER_NODE-}" "${SLURM_NODEID:-0}" ;;
  esac
  if [[ $size =~ ^[1-9][0-9]*$ ]] && ((size > DLRUN_LOCAL_RANK)); then DLRUN_LOCAL_SIZE=$size; else DLRUN_LOCAL_SIZE=$1; fi
}

# --- The plan of the node, and the rank's row ---------------------------------------------------------------------

# shellcheck disable=SC2034 # for divide.sh
dlrun_grant() { # RANKS CPUS[/KEPT_FREE] COMPUTE COMM LOADER THREADS [VARIABLE GPUS [CPUS_NEXT_TO_GPU...]]: the node's plan; divide what was granted instead, if that is not all of it
  local allowed=() missing=() cpus_of comm_of loader_of
  _dlrun_read_part
  _dlrun_missing "${2%/*}"
  if ((${#missing[@]} == 0)); then _dlrun_alone=; fi # a mask with the cores of all ranks was not made for one
  _dlrun_share_gpus "$1" "${7-}" "${8-}"
  if ((${#missing[@]} == 0 && DLRUN_LOCAL_SIZE <= $1)) && [[ -z $_dlrun_gpu_names$_dlrun_too_few ]]; then return 0; fi
  _dlrun_shared=1
  if [[ -n $_dlrun_alone ]]; then
    _dlrun_because="the launcher has bound each rank, and what was granted to this job cannot be seen"
  elif ((${#missing[@]})) || [[ -n $_dlrun_too_few ]]; then
    _dlrun_because="core ${_dlrun_lacks:-${missing[0]}} of the plan was not granted to this job"
  elif ((DLRUN_LOCAL_SIZE > $1)); then
    _dlrun_because="$DLRUN_LOCAL_SIZE ranks run here, and the plan has $1"
  else
    _dlrun_because="the job was granted other GPUs than the plan's"
  fi
  if [[ $2 == */* && -z $_dlrun_alone ]]; then _dlrun_keep_free "${2#*/}"; fi
  _dlrun_divide "$3" "$4" "$5" "$6" "${@:9}"
  if [[ -n $_dlrun_alone ]]; then _dlrun_note_alone; else
    _dlrun_note_node "$_dlrun_because: its ranks divide CPUs $_dlrun_allowed_list${_dlrun_gpu_names:+ and GPUs $_dlrun_gpu_names}, $DLRUN_THREADS threads each"
  fi
  _dlrun_record_division
  _dlrun_planned=("$_dlrun_cpus")
  _dlrun_taskset
}

dlrun_bind() { # THREADS CPUS [NUMACTL_OPTION]: bind to the planned cores, unless the ranks divide what was granted
  if [[ -n $_dlrun_shared ]]; then return 0; fi
  export DLRUN_THREADS=$1
  _dlrun_cpus=$2 _dlrun_planned=("${@:2}")
  if [[ -n ${3-} ]]; then _dlrun_memory=(numactl "$3" --); fi
  if ((${#_dlrun_memory[@]})) && ! "${_dlrun_memory[@]}" true >/dev/null 2>&1; then
    _dlrun_note "numactl is missing or rejected $3; using the default (first-touch) memory policy"
    _dlrun_memory=()
  fi
  _dlrun_taskset
}

dlrun_bind_beside() { # THREADS CPUS: for a process beside the ranks, on their communication cores, if they were granted
  local allowed=() missing=()
  _dlrun_read_part
  _dlrun_missing "$2"
  if ((${#missing[@]} == 0)); then
    dlrun_bind "$@"
  else
    export DLRUN_THREADS=$1
    _dlrun_note "core ${missing[0]} of the plan was not granted to this job; it is not bound"
  fi
}

dlrun_other_cores() { # COMM LOADER: the planned cores beside those of the rank, unless the ranks divide what was granted
  if [[ -n $_dlrun_shared ]]; then return 0; fi
  if [[ -n $1 ]]; then export DLRUN_COMM_CPUS=$1; fi
  if [[ -n $2 ]]; then export DLRUN_LOADER_CPUS=$2; fi
}

# shellcheck disable=SC2154 # set in divide.sh
dlrun_fit_cores() { # NAME...: variables with cores of the plan, or numbers of them; where the ranks divide the grant, those of the grant, or unset
  local name count=${_dlrun_comm_count-0}
  if [[ -z $_dlrun_shared ]]; then return 0; fi
  for name; do
    case $name:$count in
    *_NUM_THREADS:* | TF_NUM_INTRAOP_THREADS:*) export "$name=$DLRUN_THREADS" ;;
    *:0) unset -v "$name" ;;
    MLSL_SERVER_AFFINITY:*) export "$name=$_dlrun_comm_of_node" "MLSL_NUM_SERVERS=$count" ;;
    CCL_WORKER_AFFINITY:*) export "$name=$_dlrun_comm_of_node" "CCL_WORKER_COUNT=$count" ;;
    HOROVOD_THREAD_AFFINITY:*) export "$name=$_dlrun_first_comm" ;;
    DLRUN_COMM_CPUS:* | DLRUN_LOADER_CPUS:*) ;;
    *) unset -v "$name" ;;
    esac
  done
}

# shellcheck disable=SC2034,SC2154 # for divide.sh, and set there
dlrun_share_cores() { # [CORES]: bind to an equal part of the job's cores here; CORES is what each rank asked for on a shared node
  local allowed=() online cpus_of comm_of loader_of
  _dlrun_read_grant
  read -r online <"$_dlrun_system/cpu/online"
  _dlrun_read_cores
  if [[ -n ${1-} && $_dlrun_allowed_list == "$online" ]] && (($1 * DLRUN_LOCAL_SIZE < ${#_dlrun_core[@]})); then
    export DLRUN_THREADS=$1 # no scheduler separates the jobs of this node: which cores are free is unknown
    _dlrun_planned=("$_dlrun_cpus")
    return 0
  fi
  _dlrun_divide 1 0 0 1
  if [[ -n $_dlrun_alone ]]; then _dlrun_note_alone; fi
  _dlrun_planned=("$_dlrun_cpus")
  _dlrun_taskset
}

dlrun_count_threads() { # RANKS [CORES]: for a process that starts so many ranks itself: threads for each, and no cores for it alone
  local DLRUN_LOCAL_SIZE=$1 DLRUN_LOCAL_RANK=0
  _dlrun_taskset() { :; }
  _dlrun_note_alone() { DLRUN_THREADS=$((DLRUN_THREADS > DLRUN_LOCAL_SIZE ? DLRUN_THREADS / DLRUN_LOCAL_SIZE : 1)); } # they share its cores
  dlrun_share_cores "${@:2}"
  _dlrun_cpus='' _dlrun_planned=()
}

_dlrun_taskset() {
  if [[ -n $_dlrun_cpus ]] && ! taskset -p -c "$_dlrun_cpus" $$ >/dev/null; then _dlrun_note "could not be bound to cores $_dlrun_cpus"; fi
}

# --- The job's grant on this node, which must be the same for all its ranks ---------------------------------------

_dlrun_expand() { # LIST: sets numbers to those of a list such as 0-3,8
  local range number
  numbers=()
  for range in ${1//,/ }; do
    for ((number = ${range%-*}; number <= ${range#*-}; number++)); do numbers+=("$number"); done
  done
}

_dlrun_missing() { # LIST: sets missing to the numbers that are not among allowed
  local number numbers granted=" ${allowed[*]} "
  missing=()
  _dlrun_expand "$1"
  for number in "${numbers[@]}"; do
    if [[ $granted != *" $number "* ]]; then missing+=("$number"); fi
  done
}

_dlrun_allowed_cpus() { # [PID]: sets allowed to the hardware threads that a process may use (this one), _dlrun_parent and _dlrun_owner
  local lines line numbers=()
  mapfile -t lines <"/proc/${1:-self}/status" # line by line, `read` would make the kernel write it again each time
  for line in ${lines[@]+"${lines[@]}"}; do
    case $line in
    PPid:*) _dlrun_parent=${line##*[[:blank:]]} ;;
    Uid:*) read -r _ _dlrun_owner _ <<<"$line" ;;
    Cpus_allowed_list:*)
      _dlrun_allowed_list=${line##*[[:blank:]]}
      if (($# == 0)); then _dlrun_allowed_list=${_dlrun_granted:-$_dlrun_allowed_list}; fi
      _dlrun_expand "$_dlrun_allowed_list"
      ;;
    esac
  done
  allowed=(${numbers[@]+"${numbers[@]}"})
}

_dlrun_read_grant() { # sets allowed, _dlrun_allowed_list and _dlrun_started_with; _dlrun_alone where they are those of this rank only
  local numbers numbers_list mask list cpu outer=()
  local -A seen=()
  _dlrun_allowed_cpus
  mask=("${allowed[@]}") list=$_dlrun_allowed_list _dlrun_alone=
  _dlrun_started_with="${mask[*]}"
  if [[ -n $_dlrun_granted ]]; then return 0; fi
  _dlrun_read_cpuset
  if [[ $numbers_list == "$list" ]] || ((${#numbers[@]} <= ${#mask[@]})); then return 0; fi # the usual case: the whole grant
  _dlrun_read_launchers
  for cpu in ${outer[@]+"${outer[@]}"}; do seen[$cpu]=1; done
  allowed=()
  for cpu in "${numbers[@]}"; do if [[ -n ${seen[$cpu]-} ]]; then allowed+=("$cpu"); fi; done
  _dlrun_fold ${allowed[@]+"${allowed[@]}"}
  if ((${#allowed[@]} == 0)); then # they are not this user's, or in another control group
    { _dlrun_allowed_cpus "$_dlrun_above"; } 2>/dev/null
    if [[ "${allowed[*]-}" != "${mask[*]}" ]]; then _dlrun_alone=1; fi # else the mask was not made for this rank, and all have it
    allowed=("${mask[@]}") _dlrun_allowed_list=$list
  elif [[ $_dlrun_allowed_list != "$list" ]]; then
    _dlrun_note_node "the launcher has bound each rank (this one to CPUs $list); they take all of the job's CPUs $_dlrun_allowed_list instead"
  fi
}

_dlrun_read_cpuset() { # sets numbers and numbers_list to the hardware threads of this process's control group (cpuset, version 1 or 2), else of the node
  local controllers path base file line lines top
  numbers_list=
  mapfile -t lines </proc/self/cgroup
  for line in ${lines[@]+"${lines[@]}"}; do
    controllers=${line#*:} path=${line#*:*:} controllers=${controllers%%:*}
    case ,$controllers, in
    ,,) base=$_dlrun_groups file=cpuset.cpus.effective ;;
    *,cpuset,*) base=$_dlrun_groups/cpuset file=cpuset.cpus ;;
    *) continue ;;
    esac
    top=$path
    while [[ ! -r $base$path/$file && -n $path ]]; do path=${path%/*}; done           # the controller ends above this group
    while [[ ! -r $base$path/$file && $top == /*/* ]]; do top=/${top#/*/} path=$top; done # a container sees a part of the tree
    if [[ -r $base$path/$file ]]; then read -r numbers_list <"$base$path/$file" || true; fi
  done
  if [[ -z $numbers_list ]]; then read -r numbers_list <"$_dlrun_system/cpu/online"; fi
  _dlrun_expand "$numbers_list"
}

_dlrun_names_of_launchers=(LOCAL_RANK OMPI_COMM_WORLD_LOCAL_RANK MV2_COMM_WORLD_LOCAL_RANK MVP_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID
  DLRUN_LOCAL_RANK PALS_LOCAL_RANKID PMI_LOCAL_RANK FLUX_TASK_LOCAL_ID SLURM_LOCALID) # their local ranks; the innermost first

_dlrun_read_launchers() { # sets outer to the hardware threads of this rank's launchers: this user's processes above it, up to the first without a local rank; _dlrun_above to what started the rank
  local name='' allowed=() numbers own=1 word=${_dlrun_rank_name:+$_dlrun_rank_name=${!_dlrun_rank_name-}}
  outer=() _dlrun_above=$PPID
  { read -r name </proc/$PPID/comm; } 2>/dev/null || true
  if [[ $name != slurmstepd ]]; then
    while ((_dlrun_above > 1)) && { _dlrun_allowed_cpus "$_dlrun_above"; } 2>/dev/null && [[ $_dlrun_owner == "$UID" ]]; do
      outer+=(${allowed[@]+"${allowed[@]}"})
      # With the rank's variable and its mask it is a shell or program below the launcher.
      if [[ -z $word || "${allowed[*]-}" != "$_dlrun_started_with" ]] || ! LC_ALL=C grep -qszxF -e "$word" "/proc/$_dlrun_above/environ"; then own=; fi
      LC_ALL=C grep -qsz "${_dlrun_names_of_launchers[@]/#/-e^}" "/proc/$_dlrun_above/environ" || break
      _dlrun_above=$_dlrun_parent
    done
    if [[ -z $own ]]; then return 0; fi
    { read -r name <"/proc/$_dlrun_above/comm"; } 2>/dev/null || true
  fi
  outer=()
  [[ $name == slurmstepd && ${SLURM_CPU_BIND_TYPE-} == mask_cpu* ]] || return 0
  _dlrun_expand_masks "${SLURM_CPU_BIND_LIST-}" # its own mask is not the job's; it names those of all tasks of this node
}

_dlrun_expand_masks() { # MASKS: adds to outer the hardware threads of hexadecimal masks such as 0x3,0xc
  local mask place digit bit
  for mask in ${1//,/ }; do
    mask=${mask#0x}
    for ((place = 0; place < ${#mask}; place++)); do
      digit=$((16#${mask:${#mask}-place-1:1}))
      for bit in 0 1 2 3; do if ((digit >> bit & 1)); then outer+=($((4 * place + bit))); fi; done
    done
  done
}

_dlrun_fold() { # NUMBER...: sets _dlrun_allowed_list to the list of ascending numbers, such as 0-3,8
  local number last=
  _dlrun_allowed_list=
  for number; do
    if [[ -z $last ]] || ((number != last + 1)); then _dlrun_allowed_list+=,$number; else
      if [[ ${_dlrun_allowed_list##*,} == *-* ]]; then _dlrun_allowed_list=${_dlrun_allowed_list%-*}; fi
      _dlrun_allowed_list+=-$number
    fi
    last=$number
  done
  _dlrun_allowed_list=${_dlrun_allowed_list#,}
}
