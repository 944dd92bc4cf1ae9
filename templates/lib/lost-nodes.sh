# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# After a failure: find nodes that no longer answer, for schedulers that do not report this to the job.

dlrun_ask_nodes() { # SSH...: the command that asks one
  _dlrun_ask=("$@")
  _dlrun_on_event cause _dlrun_find_lost_nodes
}

_dlrun_answers() { # HOST: true if it answers; a refused login is an answer, too
  local said
  said=$(timeout -s KILL 20 "${_dlrun_ask[@]}" "$1" true </dev/null 2>&1) ||
    [[ $said == *[Dd]enied* || $said == *'verification failed'* ]]
}

_dlrun_find_lost_nodes() { # failures on other nodes are consequences of a lost node, which is recorded as the first failure
  local host count=0 when lost=()
  if [[ -n $_dlrun_reason || -n ${_dlrun_warning_sent-} || -z ${DLRUN_FIRST_HOST-} ]]; then return 0; fi
  mapfile -t lost < <(
    while read -r host; do
      _dlrun_answers "$host" || printf '%s\n' "$host" &
      if ((++count % 64 == 0)); then wait; fi
    done <"$DLRUN_HOSTS"
    wait
  )
  if ((${#lost[@]} == 0 || ${#lost[@]} == DLRUN_NODES)); then return 0; fi # all of them: then it is something else
  _dlrun_reason='node failed'
  if when=$(_dlrun_failed_first); then when=$((${when%% *} - 1)); else when=$(date +%s%N); fi
  printf '%s node 0 %s 255 node failed: %s does not answer any more\n' "$when" "${lost[0]}" "${lost[0]}" \
    >"$DLRUN_RUN_DIR/failures/node-0"
  dlrun_log "not answering any more: ${lost[*]}"
}
