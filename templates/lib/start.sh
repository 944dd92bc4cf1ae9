# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Common functions of dlrun's own launchers: wait for ranks that are children of this shell, and print the environment as text.

_dlrun_wait_for_ranks() { # END: until all have ended; the first that fails makes END end the others, and its code is the exit code
  _dlrun_left=${#_dlrun_ranks[@]} _dlrun_counted=
  while ((_dlrun_left)); do
    _dlrun_signalled=
    _dlrun_code=0
    _dlrun_wait_for_one || _dlrun_code=$?
    _dlrun_count_ended "$_dlrun_code" && _dlrun_code=0 || _dlrun_code=$?
    if ((_dlrun_code)); then break; fi
  done
  if ((_dlrun_code)); then "$1"; fi
  exit "$_dlrun_code"
}

_dlrun_wait_for_one() { # until one of _dlrun_ranks has ended, or a signal came
  local pid
  if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 403)); then
    wait -n
    return $? # a bare one gives another status where a trap runs
  fi
  while [[ -z $_dlrun_signalled ]]; do
    for pid in "${_dlrun_ranks[@]}"; do
      if [[ $_dlrun_counted != *" $pid "* ]] && ! kill -0 "$pid" 2>/dev/null; then return 0; fi
    done
    sleep 0.1
  done
}

_dlrun_count_ended() { # CODE of `wait -n`: the ranks that have ended since; the exit code of one that failed. `wait -n` misses one at a signal
  local pid code
  for pid in "${_dlrun_ranks[@]}"; do
    if [[ $_dlrun_counted == *" $pid "* ]] || kill -0 "$pid" 2>/dev/null; then continue; fi
    _dlrun_counted+=" $pid "
    _dlrun_left=$((_dlrun_left - 1))
    code=0
    _dlrun_reap "$pid" 1 2>/dev/null || code=$?
    if ((code == 127)); then code=$1; fi # or the shell has forgotten what `wait -n` has reported
    if ((code)); then return "$code"; fi
  done
}

dlrun_exported() { # print what sets the exported variables again, but for those that belong to this shell
  export -p | sed '/^declare -[a-z]* \(HOSTNAME\|PWD\|OLDPWD\|SHLVL\|_\)[=]/d'
}

dlrun_write_environment() { # for ranks that an agent starts: it would put all of it on command lines, for everyone to see
  (umask 077 && dlrun_exported >"$DLRUN_RUN_DIR/environment")
}

_dlrun_remove_environment() { if [[ -e $DLRUN_RUN_DIR/environment ]]; then rm -f -- "$DLRUN_RUN_DIR/environment"; fi; }
_dlrun_on_event start _dlrun_remove_environment # of a start before this one that was killed
_dlrun_on_event gone _dlrun_remove_environment
