# shellcheck shell=bash disable=SC2034,SC2154 # for rank.sh, which precedes it in one file
# The processes that a program leaves behind, also those in sessions of their own: rank.sh ends them when the program has ended, and the
# standby of the node when rank.sh, or what has started it, is gone.

_dlrun_start_standby() { # the first rank of each node: its processes end even if what has started them, or this shell, is gone
  local name='' parent=$PPID
  local -a apart=()
  if ((DLRUN_LOCAL_RANK)); then return 0; fi
  { read -r name </proc/$PPID/comm; } 2>/dev/null || name=${SLURM_STEP_ID:+slurmstepd} # it is gone already
  if [[ -z $name ]] && { read -r parent <"/proc/$$/stat"; } 2>/dev/null; then # a launcher's process that was there for the start alone
    parent=${parent##*) ? } parent=${parent%% *}
  fi
  if [[ $name == slurmstepd ]]; then name=note; else name=; fi
  if type -P setsid >/dev/null; then apart=(setsid); fi # an image may be without it
  _dlrun_standby=$( # no child of this one: a scheduler that goes by parents kills those with it
    DLRUN_PROCESS='' ${apart[@]+"${apart[@]}"} "$BASH" -p "$DLRUN_JOB_DIR/lib/standby.sh" $$ "$parent" "$name" "${_dlrun_late-}" </dev/null >/dev/null 2>&1 &
    echo "$!"
  ) || true # ended by the signal that ends this one
}

_dlrun_clean_up() {
  local status=$? word
  if ((BASHPID != $$)); then exit; fi # in a child that got a signal before it has lost the traps of this shell
  _dlrun_end_left_processes "$DLRUN_PROCESS"
  if [[ -n $_dlrun_standby ]]; then
    while IFS= read -r -d '' word; do
      if [[ $word == "$DLRUN_JOB_DIR/lib/standby.sh" ]]; then kill -KILL "$_dlrun_standby"; fi # nothing is left to it
    done <"/proc/$_dlrun_standby/cmdline"
  fi 2>/dev/null
  if ((status)) && declare -F _dlrun_forget_placement >/dev/null; then _dlrun_forget_placement; fi
  _dlrun_close_log
}

_dlrun_end_left_processes() { # MARK: end what watches, and all processes that the program has left, also daemonized ones: SIGTERM, then SIGKILL
  local found left pid kills=0 begun mark none="" signal=${_dlrun_unheard:+KILL} job=${SLURM_JOB_ID:+SLURM_JOB_ID=$SLURM_JOB_ID}
  job=${job:-${PBS_JOBID:+PBS_JOBID=$PBS_JOBID}} # the program may have submitted another
  _dlrun_read_up
  begun=$_dlrun_up
  while ((kills < 10)); do
    left=() # what watches is asked again until it is gone: a signal right after its fork may be lost with the traps of this shell
    for pid in ${_dlrun_watching[@]+"${_dlrun_watching[@]}"}; do
      if kill "$pid" 2>/dev/null; then left+=("$pid"); fi
    done
    found=(/proc/[0-9]*) # with a file's name behind it, bash would ask for each of them
    found=("${found[@]/%//environ}")
    for mark in "DLRUN_PROCESS=$1" "DLRUN_RUN_DIR=$DLRUN_RUN_DIR" ${job:+"$job"}; do # another cluster may count as this one does
      if ((${#found[@]})); then mapfile -t found < <(unset DLRUN_PROCESS && exec grep -lszxF -e "$mark" "${found[@]}"); fi
    done
    if [[ -n $_dlrun_own_socket ]]; then _dlrun_find_holders; fi
    if ((${#found[@]} + ${#_dlrun_holders[@]})); then none=; else
      if [[ -n $none ]] && ((${#left[@]} == 0)); then return 0; fi
      none=1 # a process during its exec shows no environment: look once more
    fi
    found=(${found[@]+"${found[@]//[!0-9]/}"} ${_dlrun_holders[@]+"${_dlrun_holders[@]}"})
    if [[ -n $signal ]]; then kills=$((kills + 1)); fi
    if ((${#found[@]})); then
      kill -s "${signal:-TERM}" "${found[@]}" 2>/dev/null
      sleep 0.1
    else
      _dlrun_nap 0.01 # what watches ends at once
    fi
    _dlrun_read_up
    if ((_dlrun_up - begun >= 2000000000)); then signal=KILL; fi
  done
}
