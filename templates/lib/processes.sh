# shellcheck shell=bash
# Find the descendants of processes through /proc, and end them: SIGTERM, then after a grace period SIGKILL.
# Sourced by lib/job.sh, and by lib/rank.sh when it has to find the descendants of its program.

_dlrun_grace=${DLRUN_GRACE:-10} # seconds between SIGTERM and SIGKILL; fewer where somebody waits at a terminal

_dlrun_tree() { # PID...: set _dlrun_found to these processes and all their descendants, and _dlrun_parent[PID] for every process
  local stat pid more=1
  local -A tree=()
  unset -v _dlrun_parent
  declare -gA _dlrun_parent
  _dlrun_parent=()
  for pid in "$@"; do tree[$pid]=1; done
  for stat in /proc/[0-9]*/stat; do
    pid=${stat#/proc/} pid=${pid%/stat}
    if _dlrun_stat "$pid"; then _dlrun_parent[$pid]=${_dlrun_fields[1]}; fi
  done
  _dlrun_found=("$@")
  while ((more)); do
    more=0
    for pid in "${!_dlrun_parent[@]}"; do
      if [[ -z ${tree[$pid]-} && -n ${tree[${_dlrun_parent[$pid]}]-} ]]; then
        tree[$pid]=1 more=1
        _dlrun_found+=("$pid")
      fi
    done
  done
}

_dlrun_stat() { # PID: set the array _dlrun_fields to state, parent, … of /proc/PID/stat (proc(5)); false if the process has ended
  local text=
  { read -r -d '' text <"/proc/$1/stat"; } 2>/dev/null || [[ -n $text ]] || return 1
  read -ra _dlrun_fields <<<"${text##*) }" # the name before it may hold blanks, brackets and newlines
}

_dlrun_is_forgotten() { # PID of a child: true if it has ended, and bash takes it for running
  # A trapped signal that comes in the moment in which a child ends makes `wait` drop what it has learnt: bash's trap handler
  # jumps out of waitpid (bash 5.2, `trap_handler`). To wait for that child again would never return while there are others.
  if kill -0 "$1" 2>/dev/null; then return 1; fi
  [[ $'\n'$(jobs -rp)$'\n' == *$'\n'"$1"$'\n'* ]]
}

_dlrun_reap() { # PID CODE: wait for a child; its exit code, or CODE where that is forgotten
  if ! _dlrun_is_forgotten "$1"; then
    wait "$1"
    return "$?"
  fi
  if (($2)); then dlrun_log "a signal came as a process ended, so its exit code is lost: it counts as $2"; fi
  return "$2"
}

_dlrun_within() { # TENTHS COMMAND...: a command that may take so many tenths of a second; false if it fails, or does not end
  local waited step
  "${@:2}" </dev/null &
  step=$!
  for ((waited = 0; waited < $1; waited++)); do
    kill -0 "$step" 2>/dev/null || break
    sleep 0.1
  done
  _dlrun_terminate "$step"
  wait "$step"
}

_dlrun_terminate() { # PID...: SIGTERM to those that still run; after the grace period SIGKILL to them and all their descendants
  local pid alive waited running=() all
  for pid in "$@"; do
    if kill -0 "$pid" 2>/dev/null; then running+=("$pid"); fi
  done
  ((${#running[@]})) || return 0
  _dlrun_tree "${running[@]}"
  all=("${_dlrun_found[@]}")
  kill -TERM "${running[@]}" 2>/dev/null || true
  for ((waited = 0; waited < _dlrun_grace * 10; waited++)); do
    alive=0
    for pid in "${all[@]}"; do
      if kill -0 "$pid" 2>/dev/null; then alive=1; fi
    done
    ((alive)) || return 0
    sleep 0.1
  done
  _dlrun_tree "${running[@]}"
  kill -KILL "${all[@]}" "${_dlrun_found[@]}" 2>/dev/null || true
}
