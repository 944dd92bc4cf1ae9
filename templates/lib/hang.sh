# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# End a job without progress: ranks mark themselves while they write and compute nothing (lib/checks.sh); once all have, it ends.

dlrun_watch_progress() { # COUNT ROLE HOW_LONG: end the job once all processes of that role are marked
  _dlrun_expected=$1 _dlrun_what=$2 _dlrun_how_long=$3
  _dlrun_create_empty idle stacks
  _dlrun_on_event second _dlrun_check_progress
}

_dlrun_check_progress() {
  local marks=("$DLRUN_RUN_DIR/idle/$_dlrun_what"-*[0-9]) stacks ended waited
  if [[ ! -e ${marks[0]} ]] || ((${#marks[@]} < _dlrun_expected)); then return 0; fi
  dlrun_log "no $_dlrun_what has written or computed anything for $_dlrun_how_long: writing where each stands to $DLRUN_RUN_DIR/stacks"
  : >"$DLRUN_RUN_DIR/idle/dump"
  for ((waited = 0; waited < 40; waited++)); do
    sleep 1
    stacks=("$DLRUN_RUN_DIR"/stacks/*.txt)
    if [[ -e ${stacks[0]} ]] && ((${#stacks[@]} >= _dlrun_expected)); then break; fi
    kill -0 "$_dlrun_main" 2>/dev/null || break # the ranks are gone: nothing more will come
  done
  : >"$DLRUN_RUN_DIR/idle/abort" # every rank has written what it can from outside; what is left to write ends a program
  for ((waited = 0; waited < 20; waited++)); do
    ended=("$DLRUN_RUN_DIR"/idle/*.ended)
    if [[ -e ${ended[0]} ]] && ((${#ended[@]} >= _dlrun_expected)); then break; fi
    kill -0 "$_dlrun_main" 2>/dev/null || break
    sleep 0.5
  done
  _dlrun_reason=hang
  exit 1
}
