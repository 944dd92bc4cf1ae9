# shellcheck shell=bash disable=SC2154 # variables of bind.sh, and of the functions that call these
# For ranks whose planned cores or GPUs were not granted: divides what was. Follows bind.sh in every file that has it.

# --- Roles that share the node: the grant of one of them --------------------------------------------------------

_dlrun_parts=()   # the cores of each (place.sh)
_dlrun_lacks=     # a core of theirs that was not granted
_dlrun_too_few='' # set if they have more ranks than cores were granted

_dlrun_read_part() { # as _dlrun_read_grant, without what belongs to other roles
  _dlrun_read_grant
  if ((${#_dlrun_parts[@]})) && [[ -z $_dlrun_alone ]]; then _dlrun_find_part; fi
}

# --- Division of the grant: equal parts of whole cores, in one NUMA node or package where that idles at most a core a rank and a quarter ---

_dlrun_core=() # the first hardware thread of each granted core

_dlrun_read_cores() { # sets _dlrun_core to the first hardware threads of the granted cores, in the order of packages, NUMA nodes and caches, and their labels
  local cpu list label path place cluster='' clusters=() numbers i
  local -A core=() numa=() package=() cache=() members=()
  declare -gA _dlrun_threads_of _dlrun_numa_of _dlrun_package_of # bash 4.2 would make those with values local
  _dlrun_threads_of=() _dlrun_numa_of=() _dlrun_package_of=()
  for path in "$_dlrun_system"/node/node[0-9]*/cpulist; do
    if { read -r list <"$path"; } 2>/dev/null; then
      label=${path%/cpulist}
      _dlrun_expand "$list"
      for cpu in ${numbers[@]+"${numbers[@]}"}; do numa[$cpu]=${label##*node}; done
    fi
  done
  for cpu in "${allowed[@]}"; do
    place=$_dlrun_system/cpu/cpu$cpu
    if [[ -z ${core[$cpu]-} ]]; then
      _dlrun_label core "$cpu" "$place/topology/thread_siblings_list"
      if [[ -z ${package[$cpu]-} ]]; then
        label=0
        { read -r label <"$place/topology/physical_package_id"; } 2>/dev/null || true
        _dlrun_label package "$label" "$place/topology/core_siblings_list"
      fi
      if [[ -z ${cache[$cpu]-} ]]; then _dlrun_label cache "$cpu" "$place/cache/index3/shared_cpu_list"; fi
      cluster="${package[$cpu]} ${numa[$cpu]-0} ${cache[$cpu]}"
      if [[ -z ${members[$cluster]-} ]]; then clusters+=("$cluster"); fi
      members[$cluster]+=" $cpu"
      _dlrun_package_of[$cpu]=${package[$cpu]} _dlrun_numa_of[$cpu]="${package[$cpu]} ${numa[$cpu]-0}"
    fi
    _dlrun_threads_of[${core[$cpu]}]+=,$cpu
  done
  _dlrun_core=()
  while ((${#clusters[@]})); do # the groups by package and NUMA node, of equal ones the first
    i=0
    for label in "${!clusters[@]}"; do
      read -r place list _ <<<"${clusters[label]}"
      read -r path cpu _ <<<"${clusters[i]}"
      if ((place < path || place == path && list < cpu)); then i=$label; fi
    done
    for cpu in ${members[${clusters[i]}]}; do _dlrun_core+=("$cpu"); done
    unset -v 'clusters[i]'
    clusters=(${clusters[@]+"${clusters[@]}"})
  done
}

_dlrun_label() { # MAP LABEL FILE: in MAP (of the caller), label all hardware threads that FILE lists; this one, if there is none
  local cpu_of list=$cpu numbers
  { read -r list <"$3"; } 2>/dev/null || true
  _dlrun_expand "$list"
  for cpu_of in "${numbers[@]}"; do printf -v "$1[$cpu_of]" %s "$2"; done
}

_dlrun_keep_free() { # LIST: take these hardware threads out of allowed, unless fewer cores than ranks would be left
  local cpu numbers kept whole=("${allowed[@]}") list=$_dlrun_allowed_list
  _dlrun_expand "$1"
  kept=" ${numbers[*]} " allowed=()
  for cpu in "${whole[@]}"; do if [[ $kept != *" $cpu "* ]]; then allowed+=("$cpu"); fi; done
  _dlrun_fold ${allowed[@]+"${allowed[@]}"}
  if ((${#allowed[@]})); then _dlrun_read_cores; fi
  if ((${#allowed[@]} == 0 || ${#_dlrun_core[@]} < DLRUN_LOCAL_SIZE)); then allowed=("${whole[@]}") _dlrun_allowed_list=$list; fi
}

_dlrun_divide() { # COMPUTE COMM LOADER THREADS [CPUS_NEXT_TO_GPU...]: sets _dlrun_cpus, DLRUN_THREADS and the other cores of this rank to its part of the grant
  local ranks=$DLRUN_LOCAL_SIZE total=$(($1 + $2 + $3)) size=0 parts=() rank own comm=$2 loader=$3 threads=$4 compute=$1
  local words word cpus list i
  cpus_of=() comm_of=() loader_of=()
  _dlrun_memory=() _dlrun_cpus='' _dlrun_comm_of_node='' _dlrun_first_comm='' _dlrun_comm_count=0
  unset -v DLRUN_COMM_CPUS DLRUN_LOADER_CPUS
  _dlrun_read_cores
  export DLRUN_THREADS=1
  if [[ -n $_dlrun_alone ]]; then # whatever the other ranks have, each keeps its own
    _dlrun_cpus=$_dlrun_allowed_list DLRUN_THREADS=$((threads > compute ? ${#allowed[@]} : ${#_dlrun_core[@]}))
    return 0
  fi
  if ((${#_dlrun_core[@]} < ranks)) || [[ -n $_dlrun_too_few ]]; then return 0; fi # fewer cores than ranks: leave them to the kernel
  _dlrun_part_by_gpus "$total" "${@:5}"
  if ((size == 0)); then
    _dlrun_part_by_level
    _dlrun_match_gpus "${@:5}"
  fi
  if ((size < total)); then comm=$((comm * size / total)) loader=$((loader * size / total)); fi
  _dlrun_comm_count=$comm
  DLRUN_THREADS=$((size - comm - loader))
  for ((rank = 0; rank < ranks; rank++)); do
    read -ra words <<<"${parts[rank]}"
    own=("${words[@]:0:size - comm - loader}") cpus=
    for word in "${own[@]}"; do cpus+=${_dlrun_threads_of[$word]}; done
    cpus=${cpus#,} cpus_of[rank]=$cpus
    list=${cpus//[!,]/}
    if ((threads > compute)) && ((rank == 0 || ${#list} + 1 < DLRUN_THREADS)); then DLRUN_THREADS=$((${#list} + 1)); fi # `smt: all`
    own=("${words[@]:size - comm}") list=
    for ((i = ${#own[@]} - 1; i >= 0; i--)); do list+=,${own[i]}; done
    comm_of[rank]=${list#,} loader_of[rank]=
    if ((comm)); then
      _dlrun_comm_of_node+=$list
      word=${_dlrun_threads_of[${own[comm - 1]}]} _dlrun_first_comm+=,${word##*,}
    fi
    if ((loader)); then
      printf -v list ',%s' "${words[@]:size - comm - loader:loader}"
      loader_of[rank]=${list#,}
    fi
  done
  _dlrun_comm_of_node=${_dlrun_comm_of_node#,} _dlrun_first_comm=${_dlrun_first_comm#,}
  _dlrun_cpus=${cpus_of[DLRUN_LOCAL_RANK]}
  if ((comm)); then export DLRUN_COMM_CPUS=${comm_of[DLRUN_LOCAL_RANK]}; fi
  if ((loader)); then export DLRUN_LOADER_CPUS=${loader_of[DLRUN_LOCAL_RANK]}; fi
}

_dlrun_record_division() { # the first rank of a node writes placement/HOST, for `dlrun verify`, `usage` and `report`
  local rank ranks='' gpus all=() per first=$((${DLRUN_RANK:-0} - DLRUN_LOCAL_RANK))
  if ((DLRUN_LOCAL_RANK)) || [[ ! -d ${DLRUN_RUN_DIR-}/placement ]]; then return 0; fi
  IFS=, read -ra all <<<"${_dlrun_gpu_names:-$_dlrun_gpu_rows}"
  per=$((${#all[@]} / DLRUN_LOCAL_SIZE))
  for ((rank = 0; rank < DLRUN_LOCAL_SIZE; rank++)); do
    printf -v gpus ',%s' ${all[@]+"${all[@]:rank*per:per}"}
    printf -v gpus '{"rank": %s, "cpus": "%s", "comm": "%s", "loader": "%s", "gpus": "%s"}' $((first + rank)) \
      "${cpus_of[rank]-}" "${comm_of[rank]-}" "${loader_of[rank]-}" "${gpus#,}"
    ranks+=", $gpus"
  done
  printf '{"version": 1, "host": "%s", "granted": "%s", "because": "%s", "threads": %s, "ranks": [%s]}\n' "$DLRUN_HOST" \
    "$_dlrun_allowed_list" "$_dlrun_because" "$DLRUN_THREADS" "${ranks#, }" 2>/dev/null >"$DLRUN_RUN_DIR/placement/$DLRUN_HOST"
}

_dlrun_part_by_level() { # sets size and parts: equal parts within NUMA nodes, else packages, else of the node
  local level cpu label last counts starts i room best idle total=${#_dlrun_core[@]} shares start each more
  for level in numa package node; do
    counts=() starts=() last=
    for i in "${!_dlrun_core[@]}"; do
      cpu=${_dlrun_core[i]}
      case $level in
      numa) label=${_dlrun_numa_of[$cpu]} ;;
      package) label=${_dlrun_package_of[$cpu]} ;;
      *) label=all ;;
      esac
      if [[ $label != "$last" ]]; then counts+=(0) starts+=("$i") last=$label; fi
      counts[${#counts[@]} - 1]=$((counts[${#counts[@]} - 1] + 1))
    done
    for ((size = total / ranks; size > 0; size--)); do
      room=0
      for i in "${counts[@]}"; do room=$((room + i / size)); done
      if ((room >= ranks)); then break; fi
    done
    idle=$((total - ranks * size))
    if ((size && idle <= ranks && (4 * idle <= total || size == total / ranks))); then break; fi
  done
  shares=() room=0 # ranks in proportion to the cores, by the largest remainder
  for i in "${!counts[@]}"; do
    each=$((ranks * counts[i] / total)) more=$((counts[i] / size))
    shares[i]=$((each < more ? each : more)) room=$((room + shares[i]))
  done
  for (( ; room < ranks; room++)); do
    best=
    for i in "${!counts[@]}"; do
      if ((shares[i] >= counts[i] / size)); then continue; fi
      if [[ -z $best ]] || ((ranks * counts[i] - shares[i] * total > ranks * counts[best] - shares[best] * total)); then best=$i; fi
    done
    shares[best]=$((shares[best] + 1))
  done
  parts=()
  for i in "${!counts[@]}"; do
    if ((shares[i] == 0)); then continue; fi
    start=${starts[i]} each=$((counts[i] / shares[i])) more=$((counts[i] % shares[i]))
    for ((room = 0; room < shares[i]; room++)); do
      parts+=("${_dlrun_core[*]:start:size}")
      start=$((start + each + (room < more)))
    done
  done
}

# --- Cores next to GPUs ----------------------------------------------------------------------------------------

_dlrun_cores_near() { # RANK CPUS...: sets close to the granted cores next to the GPUs of a local rank; empty: unknown
  local rows name names numbers cpu per index=
  local -A near=()
  close=
  IFS=, read -ra rows <<<"${_dlrun_gpu_names:-$_dlrun_gpu_rows}"
  per=$((${#rows[@]} / ranks))
  names=("${rows[@]:$1 * per:per}")
  shift
  for name in ${names[@]+"${names[@]}"}; do
    index=$name
    if [[ -n $_dlrun_gpu_names ]]; then index=${_dlrun_gpu_index[$name]-}; fi
    if [[ -z $index ]] || ((index >= $#)); then return 0; fi
    _dlrun_expand "${@:index + 1:1}"
    for cpu in "${numbers[@]}"; do near[$cpu]=1; done
  done
  for cpu in "${_dlrun_core[@]}"; do
    if [[ -n ${near[$cpu]-} ]]; then close+=" $cpu"; fi
  done
}

_dlrun_part_by_gpus() { # TOTAL [CPUS...]: sets size and parts to the cores next to each rank's GPUs, if these are enough
  local close rank words taken=0 count each place smallest=
  local -A sharers=() seen=() begun=()
  if (($# < 2)); then return 0; fi
  for ((rank = 0; rank < ranks; rank++)); do
    _dlrun_cores_near "$rank" "${@:2}"
    if [[ -z $close ]]; then return 0; fi
    parts[rank]=$close sharers[$close]=$((${sharers[$close]-0} + 1))
  done
  for close in "${!sharers[@]}"; do
    read -ra words <<<"$close"
    taken=$((taken + ${#words[@]})) each=$((${#words[@]} / sharers[$close]))
    for place in "${words[@]}"; do seen[$place]=1; done
    if [[ -z $smallest ]] || ((each < smallest)); then smallest=$each; fi
  done
  if ((taken > ${#seen[@]} || smallest == 0)); then return 0; fi # sets that overlap
  if ((smallest < $1 && ${#_dlrun_core[@]} - ranks * smallest > ranks)); then return 0; fi
  for ((rank = 0; rank < ranks; rank++)); do
    close=${parts[rank]} place=${begun[${parts[rank]}]-0}
    read -ra words <<<"$close"
    count=${#words[@]} each=$((count / sharers[$close]))
    begun[$close]=$((place + 1))
    place=$((place * each + (place < count % sharers[$close] ? place : count % sharers[$close])))
    parts[rank]=${words[*]:place:smallest}
  done
  size=$smallest
}

_dlrun_match_gpus() { # [CPUS...]: gives each rank, in order, the part with most cores next to its GPUs
  local close rank part best most cpu count left=("${parts[@]}") matched=()
  if (($# == 0)); then return 0; fi
  for ((rank = 0; rank < ranks; rank++)); do
    _dlrun_cores_near "$rank" "$@"
    close+=' ' best='' most=-1
    for part in "${!left[@]}"; do
      count=0
      for cpu in ${left[part]}; do if [[ $close == *" $cpu "* ]]; then count=$((count + 1)); fi; done
      if ((count > most)); then best=$part most=$count; fi
    done
    matched+=("${left[best]}")
    unset -v 'left[best]'
  done
  parts=("${matched[@]}")
}
