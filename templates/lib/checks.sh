# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# In a rank: check its placement before the program starts, and its progress while the program runs. A rank that writes and
# computes nothing marks itself as idle, and on request writes its stacks (lib/hang.sh in job.sh requests them).

dlrun_check_placement() { # ACTION BINDS GPUS_PER_NODE GPUS_PER_RANK RANKS_PER_NODE THREADS: ACTION is warn or fail, BINDS yes or no
  local fault='' tries
  if [[ -n $_dlrun_started_with ]]; then export DLRUN_ALLOWED=$_dlrun_started_with; fi # shows who took away what is missing
  if [[ -n $_dlrun_gpus ]]; then export DLRUN_GPUS=$_dlrun_gpus; fi
  _dlrun_compare_placement "${@:2}"
  if [[ -n $_dlrun_misplaced ]]; then fault=$_dlrun_misplaced${fault:+, $fault}; fi
  if [[ -n $fault ]]; then echo "dlrun: rank $DLRUN_RANK $fault"; fi
  trap '_dlrun_forget_placement; exit 143' TERM # until the program runs
  if _dlrun_report_placement || [[ -z $fault || $1 != fail ]]; then :; else # the node's line comes first
    for ((tries = 0; tries < 100; tries++)); do
      [[ -e /dev/shm/dlrun-$UID-$DLRUN_RUN_ID/placement ]] || break
      sleep 0.1
    done
    _dlrun_forget_placement
  fi
  if [[ -n $fault && $1 == fail ]]; then dlrun_fail 1 "placement: $fault"; fi
}

# What `dlrun verify` finds of one rank, in the same words (dlrun/plan/affinity/observed.py): one table of cases tests both.
_dlrun_compare_placement() { # BINDS GPUS_PER_NODE GPUS_PER_RANK RANKS_PER_NODE THREADS: sets fault
  fault=
  if (($5)) && [[ ${OMP_NUM_THREADS-$5} != "$5" ]]; then fault+=", OMP_NUM_THREADS is $OMP_NUM_THREADS, not $5"; fi
  _dlrun_compare_cpus "$1" "$4"
  if ((${#_dlrun_planned[@]} > 1)); then _dlrun_compare_memory "${_dlrun_planned[1]}"; fi
  if (($3)); then _dlrun_compare_gpus "$2" "$3"; fi
  fault=${fault#, }
}

_dlrun_numbers() { # LIST: sets found to its numbers, with blanks around each
  local range number
  found=' '
  for range in ${1//,/ }; do
    for ((number = ${range%-*}; number <= ${range#*-}; number++)); do found+="$number "; done
  done
}

_dlrun_compare_cpus() { # BINDS RANKS_PER_NODE
  # shellcheck disable=SC2034 # for _dlrun_allowed_cpus
  local number found wanted size ranks=1 allowed=()
  _dlrun_allowed_cpus
  _dlrun_numbers "$_dlrun_allowed_list"
  if [[ $1 == yes ]] && ((${#_dlrun_planned[@]})); then
    if [[ -z ${_dlrun_planned[0]} ]]; then
      fault+=", has no cores of its own: $DLRUN_LOCAL_SIZE ranks share CPUs $_dlrun_allowed_list"
      return 0
    fi
    _dlrun_numbers "${_dlrun_planned[0]}"
    wanted=$found
    _dlrun_numbers "$_dlrun_allowed_list"
    for number in $wanted; do
      if [[ $found == *" $number "* ]]; then found=${found/ $number / }; else found+='missing '; fi
    done
    if [[ $found != ' ' ]]; then fault+=", may use CPUs $_dlrun_allowed_list, not ${_dlrun_planned[0]}"; fi
    return 0
  fi
  read -ra size <<<"$found"
  if [[ $1 != yes ]]; then ranks=$2; fi
  if ((${#size[@]} >= ranks * DLRUN_THREADS)); then return 0; fi
  if [[ $1 == yes ]]; then
    fault+=", may use CPUs $_dlrun_allowed_list, fewer than its $DLRUN_THREADS threads"
  else
    fault+=", may use CPUs $_dlrun_allowed_list, fewer than $2 ranks of $DLRUN_THREADS threads need"
  fi
}

_dlrun_compare_memory() { # NUMACTL_OPTION
  local line nodes policy wanted
  line=$(${_dlrun_memory[@]+"${_dlrun_memory[@]}"} head -n 1 /proc/self/numa_maps 2>/dev/null) || line=
  if [[ -z $line ]]; then return 0; fi # the kernel does not report it
  line=${line#* }                      # `bind:0-1 file=…`, `prefer (many)=static:0 …`, `default …`
  line=${line/#prefer (many)/prefer} line=${line/#weighted interleave/interleave}
  line=${line%% *}
  case $line in
  bind*) policy=strict ;;
  prefer*) policy=preferred ;;
  default* | local*) policy=none ;;
  *) policy=${line%%[:=]*} ;;
  esac
  nodes=${line#"${line%%:*}"}
  case $1 in
  --membind=*) wanted=strict:${1#*=} ;;
  *) wanted=preferred:${1#*=} ;;
  esac
  if [[ $policy$nodes != "$wanted" ]]; then fault+=", memory policy is $policy$nodes, not $wanted"; fi
}

_dlrun_compare_gpus() { # PER_NODE PER_RANK: what variables show it; without one, what its node has; and what it may open
  local name value words word count shown='' may total
  if [[ -n $_dlrun_gpus ]]; then
    name=${_dlrun_gpus%%=*} value=${_dlrun_gpus#*=}
    if [[ ${!name-unset} != "$value" ]]; then
      if [[ -n ${!name+set} ]]; then word="is ${!name}"; else word='is not set'; fi
      fault+=", $name $word, not $value"
      return 0
    fi
  fi
  for name in CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ZE_AFFINITY_MASK; do
    [[ -n ${!name+set} ]] || continue
    shown+=" ${!name}" count=0
    IFS=, read -ra words <<<"${!name}"
    for word in ${words[@]+"${words[@]}"}; do
      case $word in '' | -1 | NoDevFiles | none | void) ;; *) count=$((count + 1)) ;; esac
    done
    if [[ $name == ZE_AFFINITY_MASK && ${ZE_FLAT_DEVICE_HIERARCHY-} == COMPOSITE && ${!name} != *.* ]]; then continue; fi # cards, of several tiles
    if ((count < $2)); then
      fault+=", $name is \`${!name}\`, fewer than $2 GPUs"
      return 0
    fi
  done
  if [[ $shown == *MIG-* ]]; then return 0; fi # several on one device
  _dlrun_count_gpus
  if ((total && may < $2)); then
    fault+=", may open $may of the $total GPUs of its node, and the plan gives it $2"
  elif [[ -z $shown ]] && ((total && total < $1)); then
    fault+=", finds $total GPUs on its node, not $1"
  fi
}

_dlrun_count_gpus() { # [DIRECTORY]: sets total to NVIDIA's GPUs of this node, and may to those that this process may open
  local device
  may=0 total=0
  for device in "${1-/dev}"/nvidia*; do
    if [[ ! ${device##*/nvidia} =~ ^[0-9]+$ || ! -e $device ]]; then continue; fi
    total=$((total + 1))
    if { : <>"$device"; } 2>/dev/null; then may=$((may + 1)); fi # a control group refuses what the mode of the file allows
  done
}

_dlrun_report_placement() { # the last process of a node that gets here prints the node's one line; false if this is another
  local place=/dev/shm/dlrun-$UID-$DLRUN_RUN_ID board='' line said right=0 wrong='' handle=
  line="$DLRUN_LOCAL_RANK $fault"
  mkdir -m 700 "$place" 2>/dev/null
  if ! _dlrun_open_board || ! { printf '%s\n' "$line" >>"$board/placement"; } 2>/dev/null; then
    said=("$line") # nowhere to meet: each for itself
  else
    { mapfile -t said <"$board/placement"; } 2>/dev/null || said=() # the last one has read and removed it
    if ((${#said[@]} < DLRUN_LOCAL_SIZE)) || [[ ${said[${#said[@]} - 1]} != "$line" ]]; then
      said=()
    else
      rm -f -- "$board/placement"
      rmdir -- "$place" 2>/dev/null
    fi
  fi
  if [[ -n $handle ]]; then exec {handle}<&-; fi
  if ((${#said[@]} == 0)); then return 1; fi
  for line in "${said[@]}"; do
    if [[ -n ${line#* } ]]; then
      wrong+="; $DLRUN_ROLE $((DLRUN_RANK - DLRUN_LOCAL_RANK + ${line%% *})) ${line#* }"
    else
      right=$((right + 1))
    fi
  done
  local as=planned
  if [[ -n ${_dlrun_because-} ]]; then as="divided among them, because $_dlrun_because"; fi
  printf 'dlrun: %s: %s of %s as %s%s\n' "$DLRUN_HOST" "$right" "${#said[@]}" "$as" "$wrong" >&"$_dlrun_launcher"
}

_dlrun_open_board() { # sets board, handle; false if the place is somebody else's
  # Checked once it is open: a link that is put in its place afterwards changes nothing.
  if { exec {handle}<"$place/."; } 2>/dev/null; then board=/proc/$BASHPID/fd/$handle; fi
  [[ -O $board && $board/.. -ef /dev/shm ]]
}

_dlrun_forget_placement() { # a rank that fails or is ended ends the others, and the last of its node may never get to its check
  local place=/dev/shm/dlrun-$UID-$DLRUN_RUN_ID board='' handle=
  if _dlrun_open_board; then
    rm -f -- "$board/placement"
    rmdir -- "$place" 2>/dev/null
  fi
  if [[ -n $handle ]]; then exec {handle}<&-; fi
}

# --- Progress ---------------------------------------------------------------------------------------------------

dlrun_mark_idle() { # SECONDS: after so long without a line or a hundredth of a core
  _dlrun_patience=$1
  _dlrun_watch+=' _dlrun_watch_progress'
}

_dlrun_watch_progress() {
  local now last=0 before=0 written=-1 size ticks pause=$((_dlrun_patience / 10)) mark=$DLRUN_RUN_DIR/idle/$DLRUN_ROLE-$DLRUN_RANK
  pause=$((pause > 30 ? 30 : pause < 1 ? 1 : pause))
  while kill -0 "$_dlrun_child" 2>/dev/null; do
    _dlrun_find_descendants
    _dlrun_count_ticks
    size=$(stat -c %s "$_dlrun_log")
    read -r now _ </proc/uptime # $SECONDS follows a clock that may be set
    now=${now%%.*}
    if ((size != written || ticks - before > pause || before > ticks)); then # a hundredth of one core is not progress
      last=$now written=$size
      if [[ -e $mark ]]; then rm -f "$mark"; fi
    elif ((now - last >= _dlrun_patience)); then
      [[ -e $mark ]] || : >"$mark"
    fi
    before=$ticks
    if [[ -e $mark && -e $DLRUN_RUN_DIR/idle/dump ]]; then
      _dlrun_write_stacks
      : >"$mark.ended"
      return 0
    fi
    sleep "$([[ -e $mark ]] && echo 1 || echo "$pause")"
  done
}

_dlrun_count_ticks() { # sets ticks to the CPU time that the program and all below it have used
  local pid
  ticks=0
  for pid in "${_dlrun_found[@]}"; do
    _dlrun_stat "$pid" || continue
    ticks=$((ticks + _dlrun_fields[11] + _dlrun_fields[12] + _dlrun_fields[13] + _dlrun_fields[14])) # its own and ended children's
  done
}

_dlrun_write_stacks() { # where each thread waits, and Python's own view of it
  local pid task spy out=$DLRUN_RUN_DIR/stacks/$DLRUN_ROLE-$DLRUN_RANK.txt python=() waited
  spy=$(command -v py-spy || true)
  {
    echo "$DLRUN_ROLE $DLRUN_RANK on $DLRUN_HOST"
    for pid in "${_dlrun_found[@]}"; do
      printf '\nprocess %s: %s\n' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline")"
      for task in "/proc/$pid/task"/*; do
        printf '  thread %s (%s) waits in %s; system call %s\n' "${task##*/}" "$(<"$task/comm")" "$(<"$task/wchan")" "$(<"$task/syscall")"
      done
      [[ $(readlink "/proc/$pid/exe") == */python* ]] || continue
      if [[ -z $spy ]] || ! timeout 20 "$spy" dump --pid "$pid"; then python+=("$pid"); fi
    done
  } >"$out.new" 2>/dev/null
  mv "$out.new" "$out"
  for ((waited = 0; waited < 90; waited++)); do # the others show where they are before one ends, and with it perhaps all
    [[ ! -e $DLRUN_RUN_DIR/idle/abort ]] || break
    sleep 0.5
  done
  for pid in ${python[@]+"${python[@]}"}; do # without py-spy, Python's faulthandler writes its stacks to the log, and ends
    prlimit --pid "$pid" --core=0 2>/dev/null
    kill -ABRT "$pid" 2>/dev/null
  done
  for ((waited = 0; waited < 50; waited++)); do
    kill -0 ${python[@]+"${python[@]}"} 2>/dev/null || break
    sleep 0.1
  done
}
