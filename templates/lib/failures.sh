# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Find the first failure: ranks write files to failures/, and their times are corrected if a node's clock is wrong. Also the
# loss of slurmstepd. Sourced by lib/job.sh.

_dlrun_matches() { # NAME PATTERN: print the files of the run's directory NAME that match; false if none do. With any shell options
  local place=${DLRUN_RUN_DIR//\\/\\\\} # nothing in the path is a pattern
  place=${place//\*/\\*} place=${place//\?/\\?} place=${place//\[/\\[}
  place=${place//\(/\\(} # a pattern where extglob is set
  compgen -G "$place/$1/$2"
}

_dlrun_some_failed() { # true if a process has written a note, or could write an empty one only, on a full disk
  if ! _dlrun_matches failures '*-*[0-9]' >/dev/null && [[ ! -e $DLRUN_RUN_DIR/failures/fabric ]]; then return 1; fi
  _dlrun_find_notes
  ((${#_dlrun_notes[@]}))
}

_dlrun_find_notes() { # sets _dlrun_notes to the notes in failures/; other files there are the user's
  local note
  _dlrun_notes=()
  for note in "$DLRUN_RUN_DIR"/failures/{*-*[0-9],fabric}; do
    if _dlrun_is_note "$note"; then _dlrun_notes+=("$note"); fi
  done
}

_dlrun_is_note() { # FILE: is it named as its first line names its process, or empty?
  local first='' name=${1##*/}
  [[ -f $1 && ! -L $1 ]] || return 1
  { read -r first; } 2>/dev/null <"$1" || true
  if [[ -z $first ]]; then [[ $name =~ ^[^\ ]+-[0-9]+$ ]] && return 0; fi
  [[ $first =~ ^[0-9]+\ ([^\ ]+)\ ([0-9]+)\  ]] && [[ $name == fabric || $name == "${BASH_REMATCH[1]}-${BASH_REMATCH[2]}" ]]
}

_dlrun_some_began() { # has a process of this start ended, or a log? What another node writes may be seen a minute late
  local log tries
  for ((tries = 0; tries < 60; tries++)); do
    if _dlrun_matches ended '*' >/dev/null; then return 0; fi # a quiet one leaves an earlier start's log as it was
    for log in "$DLRUN_RUN_DIR"/logs/{,0/}*-*[0-9].log; do
      if [[ -e $log && ${log##*/} != stage-* && ! $DLRUN_HOSTS -nt $log ]]; then return 0; fi
    done
    sleep 1
  done
  return 1
}

_dlrun_failed_first() { # print when, role, rank, host, exit code and reason of what failed first; false if nothing did
  local note when rest late now off
  _dlrun_some_failed || return 1
  now=$(($(date +%s%N) - _dlrun_stepped * 1000000000)) # as the clock was at the launch, like the times in the notes
  for note in "${_dlrun_notes[@]}"; do
    when='' late=''
    { read -r when rest && read -r late; } 2>/dev/null <"$note" || true
    [[ -n $when ]] || continue # not written yet
    off=0 # how far that node's clock is ahead of this one's, where it must be wrong
    if ((${late:-0} < -2000000000)); then # it began before it was launched
      off=$late
    elif ((when > now + 2000000000)); then # it ended in the future
      off=${late:-$((when - now))}
    fi
    if ((off)); then # this node's clock counts, also for `dlrun why`
      when=$((when - off))
      printf '%s %s\n' "$when" "$rest" >"$note"
    fi
    printf '%s %s\n' "$when" "$rest"
  done | sort -n | sed -n 1p
}

_dlrun_exit() { # STATUS: exit with the code of what failed first; the launcher's own may be a later one's
  local first status=$1
  _dlrun_over=1
  if _dlrun_some_failed && first=$(_dlrun_failed_first) && [[ -n $first ]]; then read -r _ _ _ _ status _ <<<"$first"; fi # a note is empty where no disk has space for it
  exit "$status"
}

_dlrun_report_first_failure() { # by time alone, with its last lines
  local first role rank host code note words line log job=$DLRUN_JOB_DIR
  if [[ -e ${job%/*/*}/roles.json ]]; then job=${job%/*/*}; fi # a role's directory is in that of its job
  first=$(_dlrun_failed_first) && [[ -n $first ]] || return 0
  read -r _ role rank host code note <<<"$first"
  log=$(_dlrun_log_of "$role" "$rank")
  dlrun_log "first failure: $role $rank on $host ended with exit code $code${note:+, $note}; by time alone, \`dlrun why ${job##*/}${DLRUN_POINT:+:$DLRUN_POINT}\` finds the cause; the end of logs/$log:"
  words=$(_dlrun_end_of "$DLRUN_RUN_DIR/logs/$log" "$role $rank" 2>/dev/null | tr -d '\0') || true
  if ((${DLRUN_RESTART:-0})); then
    words=${words#*"dlrun: run $((DLRUN_RESTART + 1))"} # text above is of an earlier run
  fi
  if [[ -n $words ]]; then while IFS= read -r line; do printf '  | %s\n' "$line"; done <<<"${words#$'\n'}"; fi
}

_dlrun_log_of() { # ROLE RANK: print the file below logs/ that this process writes to (_dlrun_open_log in lib/rank.sh)
  local log=$(($2 / 1000))/$1-$2.log
  if [[ -e $DLRUN_RUN_DIR/logs/$log ]]; then printf '%s' "$log" && return 0; fi
  for log in "$DLRUN_RUN_DIR"/logs/{,[0-9]*/}"$1"-*-*.log; do # those that ranks share
    if [[ ${log##*/} =~ ^"$1"-([0-9]+)-([0-9]+)\.log$ ]] && ((BASH_REMATCH[1] <= $2 && $2 <= BASH_REMATCH[2])); then
      printf '%s' "${log#"$DLRUN_RUN_DIR/logs/"}" && return 0
    fi
  done
  printf '%s' "$1-$2.log"
}

_dlrun_end_of() { # LOG LABEL: print the last lines of a process; a line may be huge
  if [[ ${1##*/} == "${2/ /-}.log" ]]; then
    tail -c 4096 -- "$1" | tail -n 15
  else
    tail -c 65536 -- "$1" | grep -a "^$2:" | tail -c 4096 | tail -n 15 | sed "s/^$2://"
  fi
}

_dlrun_daemon_lost() { # only slurmstepd reports the end of the script: without it the job would keep its nodes, and then be requeued
  _dlrun_reason='node failed'
  dlrun_log "slurmstepd, which had started this script on $_dlrun_host, is gone"
  _dlrun_on_event over _dlrun_end_in_slurm
  _dlrun_exit 1
}

_dlrun_end_in_slurm() { scancel --quiet "$SLURM_JOB_ID" || true; }

_dlrun_find_cause() {
  local note
  if ((_dlrun_status == 0)); then return 0; fi
  if [[ -z $_dlrun_reason ]] && _dlrun_some_failed && grep -qs 'out of memory$' "${_dlrun_notes[@]}"; then _dlrun_reason='out of memory'; fi
  if [[ -z $_dlrun_reason ]]; then
    read -r _ _ _ _ _ note < <(_dlrun_failed_first)
    if [[ $note =~ ^([a-z ]+):\  ]]; then _dlrun_reason=${BASH_REMATCH[1]}; fi # a check of the job's own
  fi
  _dlrun_event cause
}
