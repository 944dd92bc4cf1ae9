# shellcheck shell=bash
# Run a command as the program of a rank would run it: with its variables, in its directory and, if it has one, its container.
# bash -c THIS dlrun-shell RUN_DIRECTORY RANK [COMMAND...]; without RANK: in the step's own environment, in RUN_DIRECTORY.

dlrun_join() { # RUN_DIRECTORY RANK [COMMAND...]
  local run=$1 rank=$2 process='' entry enter
  shift 2
  if [[ -z $rank ]]; then
    cd -- "$run" || return
  else
    process=$(dlrun_of_rank "$run" "$rank") || {
      echo "dlrun shell: rank $rank has no process on ${HOSTNAME%%.*}: it has ended, or has not started yet" >&2
      return 3
    }
    enter=$(type -P nsenter)
    # Not with env(1): its arguments, and secrets among them, would stand in the list of processes.
    for entry in $(compgen -e); do unset "$entry" 2>/dev/null || true; done
    while IFS= read -r -d '' entry; do
      if [[ $entry == [A-Za-z_]*([A-Za-z0-9_])=* ]]; then export "${entry%%=*}=${entry#*=}" 2>/dev/null || true; fi
    done <"/proc/$process/environ"
    if [[ $(dlrun_namespaces "$process") == "$(dlrun_namespaces $$)" ]]; then
      cd -- "/proc/$process/cwd" || return
      cd -- "$(pwd -P)" || return # by its name, which stays when the rank ends
    elif [[ -z $enter ]]; then
      echo "dlrun shell: the rank is in a container, and this node has no nsenter(1) to enter it" >&2
      return 1
    else
      if (($# == 0)); then set -- "$(dlrun_inside_shell "$process")"; fi
      exec "$enter" --target "$process" --user --mount --preserve-credentials --wd -- "$@"
    fi
  fi
  if (($# == 0)); then
    set -- "${BASH:-bash}"
    if [[ ${SHELL-} == /* && -x $SHELL ]]; then set -- "$SHELL"; fi
  fi
  exec "$@"
}

dlrun_of_rank() { # RUN_DIRECTORY RANK: print the process id of the rank's program: the oldest process, in its container if it has one
  local file process stat place first='' best='' own
  own=$(dlrun_namespaces $$)
  for file in /proc/[0-9]*/environ; do
    if ! grep -qsz -- "^DLRUN_PROCESS=[^ ]* [^ ]* $2\$" "$file" || ! grep -qszxF -- "DLRUN_RUN_DIR=$1" "$file"; then continue; fi
    process=${file#/proc/}
    process=${process%/environ}
    stat=$(cat "/proc/$process/stat" 2>/dev/null) || continue # it has just ended
    read -r -a stat <<<"${stat##*) }"                         # a program's name may have blanks and parentheses
    place=2
    if [[ $(dlrun_namespaces "$process") != "$own" ]]; then
      place=1 # a container, or what sets one up
      if grep -qsz '^[A-Z]*_CONTAINER=' "$file"; then place=0; fi
    fi
    printf -v place '%d%018d' "$place" "${stat[19]}" # then the start time
    if [[ -z $best || $place < $best ]]; then best=$place first=$process; fi
  done
  [[ -n $first ]] && printf '%s' "$first"
}

dlrun_namespaces() { # PROCESS: print what differs in a container
  readlink "/proc/$1/ns/mnt" "/proc/$1/ns/user" 2>/dev/null
}

dlrun_inside_shell() { # PROCESS: a shell that its container has
  if [[ -e /proc/$1/root/bin/bash ]]; then printf bash; else printf sh; fi
}

shopt -s extglob
dlrun_join "$@"
