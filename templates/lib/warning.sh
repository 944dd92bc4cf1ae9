# shellcheck shell=bash disable=SC2154,SC2034 # variables of the page's own part
# The early warning in a rank: job.sh's signal arrives here, and only the program gets the signal at which it saves its state.

dlrun_warn_program() { # SIGNAL CARRIER TO [makes-way] [agent] [ignore]: when CARRIER arrives, send SIGNAL to the program, once
  _dlrun_signal=$1 _dlrun_carrier=$2 _dlrun_to=$3
  _dlrun_ignored=("$2") # signals to all processes of this rank do not end this one
  if [[ " ${*:4} " == *' ignore '* ]]; then _dlrun_ignored+=("$1"); fi
  if [[ " ${*:4} " == *' agent '* ]]; then _dlrun_is_agent=1; fi
  if [[ " ${*:4} " == *' makes-way '* ]]; then _dlrun_makes_way=1; fi
}

_dlrun_warn() { # the program alone, not the processes that it started
  local ranks=("$_dlrun_child")
  if [[ -n $_dlrun_warning_sent ]]; then return 0; fi
  _dlrun_warning_sent=1
  if [[ $_dlrun_to == 'rank 0' ]] && ((DLRUN_RANK)); then return 0; fi
  if [[ -n $_dlrun_is_agent ]]; then
    mapfile -t ranks < <(_dlrun_ranks_below)
    if [[ $_dlrun_to == 'rank 0' ]]; then ranks=("${ranks[0]}"); fi
  fi
  kill -s "$_dlrun_signal" "${ranks[@]}" 2>/dev/null
}

_dlrun_ranks_below() { # print the first processes below the agent that have got a rank from it, in order
  local pid
  local -A mine=()
  _dlrun_find_descendants
  for pid in "${_dlrun_found[@]}"; do
    if [[ $pid != "$_dlrun_child" ]] && grep -Eqsz '^(LOCAL_RANK|PADDLE_TRAINER_ID)=' "/proc/$pid/environ"; then mine[$pid]=1; fi
  done
  for pid in "${!mine[@]}"; do
    if [[ -z ${mine[${_dlrun_parent[$pid]}]-} ]]; then echo "$pid"; fi
  done | sort -n
}
