# shellcheck shell=bash disable=SC2154 # variables of bind.sh, and of the functions that call these
# Which of the visible GPUs a rank is shown, whatever the scheduler calls them. Follows divide.sh in every file that has it.

dlrun_show_gpus() { # VARIABLE INDEXES: show this rank the GPUs of its row, unless the ranks divide what was granted
  local index mine=''
  if [[ -n $_dlrun_gpus_decided ]]; then return 0; fi
  for index in ${2//,/ }; do mine+=,${_dlrun_gpu_name[$index]-$index}; done
  _dlrun_set_gpus "${_dlrun_gpus_by:-$1}" "${mine#,}"
}

_dlrun_set_gpus() { # VARIABLE NAMES
  export "$1=$2"
  # shellcheck disable=SC2034 # for checks.sh
  _dlrun_gpus=$1=$2
}

_dlrun_share_gpus() { # RANKS VARIABLE ROWS: are the GPUs of all rows visible? Else each rank gets its part of what is, and _dlrun_gpu_names are those of all
  local names=() planned=() index position per lacks='' first by=$2
  declare -gA _dlrun_gpu_name _dlrun_gpu_index
  if [[ $2 == ROCR_VISIBLE_DEVICES && -z ${ROCR_VISIBLE_DEVICES+set} && -n ${HIP_VISIBLE_DEVICES+set} ]]; then
    by=HIP_VISIBLE_DEVICES # it counts the GPUs that the other one leaves
  fi
  _dlrun_gpus_decided='' _dlrun_gpu_names='' _dlrun_gpu_rows=$3 _dlrun_gpus_by=$by
  if [[ -z $by ]]; then return 0; fi
  IFS=, read -ra planned <<<"$3"
  per=$((${#planned[@]} / $1))
  if [[ $by == ZE_AFFINITY_MASK && ${ZE_FLAT_DEVICE_HIERARCHY-} == COMPOSITE && ${!by-} != *.* ]]; then
    _dlrun_note "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE counts cards, and the plan counts tiles: $by is left as it is"
    _dlrun_gpus_decided=1
    return 0
  fi
  if [[ -z ${!by+set} ]]; then
    if ((DLRUN_LOCAL_SIZE <= $1)); then return 0; fi
    names=("${planned[@]}")
  else
    IFS=', ' read -ra names <<<"${!by}"
    _dlrun_end_names
    if [[ $by == ZE_AFFINITY_MASK && ${!by} == *.* ]]; then _dlrun_name_tiles; fi
  fi
  _dlrun_find_gpus
  lacks=
  for index in "${planned[@]}"; do
    if [[ -z ${_dlrun_gpu_name[$index]-} ]]; then lacks=1; fi
  done
  if [[ -z $lacks ]] && ((DLRUN_LOCAL_SIZE <= $1)); then return 0; fi
  _dlrun_gpus_decided=1
  if ((${#names[@]} == 0)) || { ((${#names[@]} <= per)) && ! _dlrun_is_jobs "$by"; }; then # none, or this rank's alone: the scheduler has done it
    if ((${#names[@]})); then _dlrun_gpus=$by=${!by}; fi
    return 0
  fi
  _dlrun_gpu_names=
  for ((position = 0; position < DLRUN_LOCAL_SIZE; position++)); do
    if ((${#names[@]} >= DLRUN_LOCAL_SIZE * per)); then first=$((position * per)); else
      first=$((position * ${#names[@]} / DLRUN_LOCAL_SIZE)) # neighbours share
      first=$((first > ${#names[@]} - per ? ${#names[@]} - per : first))
      first=$((first < 0 ? 0 : first))
    fi
    printf -v index ',%s' "${names[@]:first:per}"
    _dlrun_gpu_names+=$index
    if ((position == DLRUN_LOCAL_RANK)); then _dlrun_set_gpus "$by" "${index#,}"; fi
  done
  _dlrun_gpu_names=${_dlrun_gpu_names#,}
}

_dlrun_is_jobs() { # VARIABLE: is it the whole job's, so that the ranks share its GPUs? That of the launcher is, and one with as many as Slurm granted
  local pid=$PPID word=${_dlrun_rank_name:+$_dlrun_rank_name=${!_dlrun_rank_name-}}
  # shellcheck disable=SC2034 # so that those of the grant stay
  local allowed numbers _dlrun_allowed_list
  if ((DLRUN_LOCAL_SIZE == 1)) || [[ ${SLURM_GPUS_ON_NODE-} == "${#names[@]}" ]]; then return 0; fi
  while [[ -r /proc/$pid/environ ]] && ((pid > 1)); do
    if [[ -z $word ]] || ! LC_ALL=C grep -qszxF -e "$word" "/proc/$pid/environ"; then # the launcher
      LC_ALL=C grep -qszxF -e "$1=${!1}" "/proc/$pid/environ"
      return $?
    fi
    { _dlrun_allowed_cpus "$pid"; } 2>/dev/null
    pid=$_dlrun_parent
  done
  return 1
}

_dlrun_end_names() { # cut names (of the caller) before the first that is none: runtimes ignore what follows it
  local position
  for position in ${names[@]+"${!names[@]}"}; do
    case ${names[position]} in
    '' | -* | NoDevFiles | none | void)
      names=(${names[@]+"${names[@]:0:position}"})
      return 0
      ;;
    esac
  done
}

_dlrun_name_tiles() { # names (of the caller) in a mask of Level Zero with a card's tile such as 1.0, where 1 is a card with all its tiles: each becomes a tile
  local name card tile one tiles=() taken=' '
  _dlrun_read_tiles
  if ((${#_dlrun_tiles_before[@]} < 2)); then return 0; fi # no card is known: names that say nothing
  for name in ${names[@]+"${names[@]}"}; do
    if [[ ! $name =~ ^([0-9]+)(\.([0-9]+))?$ ]]; then continue; fi
    card=$((10#${BASH_REMATCH[1]})) one=${BASH_REMATCH[3]}
    if ((card + 1 >= ${#_dlrun_tiles_before[@]})); then continue; fi # the runtime ignores what is not there
    for ((tile = 0; tile < _dlrun_tiles_before[card + 1] - _dlrun_tiles_before[card]; tile++)); do
      if [[ -n $one ]] && ((10#$one != tile)); then continue; fi
      name=$card.$tile
      if [[ ${ZE_FLAT_DEVICE_HIERARCHY-} != COMPOSITE ]]; then name=$((_dlrun_tiles_before[card] + tile)); fi
      if [[ $taken != *" $name "* ]]; then tiles+=("$name") taken+="$name "; fi
    done
  done
  names=(${tiles[@]+"${tiles[@]}"})
  if [[ ${ZE_FLAT_DEVICE_HIERARCHY-} != COMPOSITE ]] && ((${#names[@]})); then # where tiles are numbered, the runtime ignores 1.0
    printf -v name ',%s' "${names[@]}"
    export ZE_FLAT_DEVICE_HIERARCHY=${ZE_FLAT_DEVICE_HIERARCHY:-FLAT} ZE_AFFINITY_MASK=${name#,}
  fi
}

_dlrun_read_tiles() { # sets _dlrun_tiles_before to the number of each card's first tile, then that of all tiles
  local place class vendor count first=0
  declare -ga _dlrun_tiles_before
  _dlrun_tiles_before=(0)
  for place in "$_dlrun_devices"/*; do
    if { read -r class <"$place/class" && read -r vendor <"$place/vendor"; } 2>/dev/null && [[ $class == 0x0380* && $vendor == 0x8086 ]]; then
      _dlrun_count_tiles "$place"
      first=$((first + count))
      _dlrun_tiles_before+=("$first")
    fi
  done
}

_dlrun_count_tiles() { # DIRECTORY: sets count to the tiles of one of Intel's GPUs, by the driver xe or i915, or by its PCI id
  local place found='' device=
  count=0
  for place in "$1"/tile[0-9]*; do
    if [[ ${place##*/tile} =~ ^[0-9]+$ && -e $place ]]; then count=$((count + 1)); fi
  done
  if ((count)); then return 0; fi
  for place in "$1"/drm/*/gt/gt[0-9]*; do
    if [[ ${place##*/gt} =~ ^[0-9]+$ && -e $place && (-z $found || ${place%/gt/gt*} == "$found") ]]; then
      found=${place%/gt/gt*} count=$((count + 1))
    fi
  done
  if ((count)); then return 0; fi
  { read -r device <"$1/device"; } 2>/dev/null || true
  if [[ ${device#0x} == 0bd5 ]]; then count=2; else count=1; fi
}

_dlrun_find_gpus() { # sets _dlrun_gpu_name, the name of each GPU, and _dlrun_gpu_index, the GPU of each name, from names (of the caller)
  local position index lacks=
  _dlrun_gpu_name=() _dlrun_gpu_index=()
  for position in ${names[@]+"${!names[@]}"}; do
    _dlrun_find_gpu "${names[position]}"
    if [[ -z $index ]]; then lacks=1; else _dlrun_gpu_index[${names[position]}]=$index _dlrun_gpu_name[$index]=${names[position]}; fi
  done
  if [[ -n $lacks ]]; then # names that say nothing about the GPU: the n-th is the n-th GPU
    _dlrun_gpu_name=() _dlrun_gpu_index=()
    for position in "${!names[@]}"; do _dlrun_gpu_name[$position]=${names[position]}; done
  fi
}

_dlrun_find_gpu() { # NAME: sets index to the GPU's, in the order of PCI addresses; empty: unknown
  local place line position=0 found=0
  index=
  if [[ $1 =~ ^[0-9]+$ ]]; then
    index=$((10#$1))
  elif [[ $1 =~ ^([0-9]+)\.([0-9]+)$ && -n ${_dlrun_tiles_before[BASH_REMATCH[1]]-} ]]; then
    index=$((_dlrun_tiles_before[BASH_REMATCH[1]] + BASH_REMATCH[2]))
  elif [[ $1 == GPU-?* ]]; then
    for place in "$_dlrun_driver"/gpus/*/information "$_dlrun_devices"/*/unique_id; do # of NVIDIA; of AMD
      if ! { mapfile -t line <"$place"; } 2>/dev/null; then continue; fi
      if [[ ${line[*]} =~ UUID:[[:blank:]]*"$1" || GPU-${line[0]-} == "$1" ]]; then index=$position found=$((found + 1)); fi
      position=$((position + 1))
    done
    if ((found > 1)); then index=; fi # CUDA wants enough of the name
  fi
}
