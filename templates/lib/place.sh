# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# A rank that shares its node: with other points of a sweep (the ranks of all places divide the node by one plan), or with other roles.

dlrun_take_place() { # PLACES: until dlrun_leave_place, the local rank is the number among the ranks of all places
  _dlrun_of_point="$DLRUN_LOCAL_RANK $DLRUN_LOCAL_SIZE"
  DLRUN_LOCAL_RANK=$((DLRUN_PLACE * DLRUN_LOCAL_SIZE + DLRUN_LOCAL_RANK)) DLRUN_LOCAL_SIZE=$(($1 * DLRUN_LOCAL_SIZE))
}

dlrun_leave_place() { read -r DLRUN_LOCAL_RANK DLRUN_LOCAL_SIZE <<<"$_dlrun_of_point"; }

dlrun_show_part() { # VARIABLE INDEXES [NAME VALUE]: of the GPUs that this job is shown, these alone; NAME numbers GPUs as the plan does
  local names=() index shown='' given=${!1-}
  if [[ -n ${DLRUN_GPUS_OF_ROLE+set} && $DLRUN_GPUS_OF_ROLE == "$1=$given" ]]; then return 0; fi # a process above has done it
  if (($# > 2)); then export "$3=$4"; fi
  IFS=, read -ra names <<<"$given"
  for index in ${2//,/ }; do
    if [[ -z ${!1+set} ]]; then shown+=,$index; elif ((index < ${#names[@]})); then shown+=,${names[index]}; else
      echo "dlrun: rank $DLRUN_RANK: GPU $index of the plan is not among those of this job, $1=$given"
      dlrun_fail 2
    fi
  done
  export "$1=${shown#,}" "DLRUN_GPUS_OF_ROLE=$1=${shown#,}"
}

# --- Cores of roles that share the node -------------------------------------------------------------------------

dlrun_take_part() { # OWN KEPT_FREE RANKS:CORES:CPUS...: the plans of the roles on this node, of which OWN, from 0, is this one; if not all was granted, they divide what was
  _dlrun_own_part=$1 _dlrun_kept_free=$2 _dlrun_parts=("${@:3}")
}

_dlrun_find_part() { # takes what other roles get out of allowed: each has its planned cores as far as they were granted, then others, so many that all have ranks with cores
  local part cpu numbers missing=() lacks=() taken=() size=() ranks=() fewest=0 total=0 spare best i DLRUN_LOCAL_SIZE
  local -A owner=() of_part=()
  for i in "${!_dlrun_parts[@]}"; do
    IFS=: read -r "ranks[i]" "size[i]" part <<<"${_dlrun_parts[i]}"
    _dlrun_missing "$part"
    lacks+=(${missing[@]+"${missing[@]}"}) fewest=$((fewest + ranks[i])) total=$((total + size[i]))
    _dlrun_expand "$part"
    for cpu in "${numbers[@]}"; do of_part[$cpu]=$i; done
  done
  if ((${#lacks[@]} == 0)); then return 0; fi
  _dlrun_lacks=${lacks[0]} DLRUN_LOCAL_SIZE=$fewest
  if [[ -n $_dlrun_kept_free ]]; then _dlrun_keep_free "$_dlrun_kept_free"; fi
  _dlrun_read_cores
  spare=${#_dlrun_core[@]}
  if ((spare < fewest)); then
    _dlrun_too_few=1
    return 0
  fi
  for i in "${!size[@]}"; do # in proportion to the plan, but at least a core for each rank
    if ((${#_dlrun_core[@]} < total)); then size[i]=$((${#_dlrun_core[@]} * size[i] / total)); fi
    if ((size[i] < ranks[i])); then size[i]=${ranks[i]}; fi
    spare=$((spare - size[i])) taken[i]=0
  done
  for (( ; spare < 0; spare++)); do
    best=0
    for i in "${!size[@]}"; do if ((size[i] - ranks[i] > size[best] - ranks[best])); then best=$i; fi; done
    size[best]=$((size[best] - 1))
  done
  for cpu in "${_dlrun_core[@]}"; do # its own
    i=${of_part[$cpu]-}
    if [[ -z $i ]] || ((taken[i] == size[i] && spare == 0)); then continue; fi
    if ((taken[i] == size[i])); then size[i]=$((size[i] + 1)) spare=$((spare - 1)); fi
    owner[$cpu]=$i taken[i]=$((taken[i] + 1))
  done
  for cpu in "${_dlrun_core[@]}"; do # others
    if [[ -n ${owner[$cpu]-} ]]; then continue; fi
    for i in "${!size[@]}"; do
      if ((taken[i] < size[i])); then
        owner[$cpu]=$i taken[i]=$((taken[i] + 1))
        break
      fi
    done
  done
  numbers=" "
  for cpu in "${_dlrun_core[@]}"; do
    if [[ ${owner[$cpu]-} == "$_dlrun_own_part" ]]; then numbers+="${_dlrun_threads_of[$cpu]//,/ } "; fi
  done
  taken=("${allowed[@]}") allowed=()
  for cpu in "${taken[@]}"; do if [[ $numbers == *" $cpu "* ]]; then allowed+=("$cpu"); fi; done
  _dlrun_fold "${allowed[@]}"
}
