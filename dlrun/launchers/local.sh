# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# The local launcher: ranks are children of job.sh on this machine.

dlrun_local() { # COUNT COMMAND...: that many ranks; the first that fails ends the others
  _dlrun_count=$1
  shift
  if ((_dlrun_count == 1 && BASHPID != $$)); then DLRUN_RANK=0 DLRUN_LOCAL_RANK=0 DLRUN_LOCAL_SIZE=1 DLRUN_NODE_RANK=0 exec "$@"; fi # signals need no one to pass them on
  _dlrun_ranks=()
  trap - EXIT
  trap '_dlrun_end_here; exit 143' TERM
  if [[ -n ${_dlrun_carrier-} ]]; then
    trap '_dlrun_signalled=1; kill -s "$_dlrun_carrier" "${_dlrun_ranks[@]}" 2>/dev/null || true' "$_dlrun_carrier"
  fi
  for ((_dlrun_rank = 0; _dlrun_rank < _dlrun_count; _dlrun_rank++)); do # no variable of the user's may be hidden by a local one
    DLRUN_RANK=$_dlrun_rank DLRUN_LOCAL_RANK=$_dlrun_rank DLRUN_LOCAL_SIZE=$_dlrun_count DLRUN_NODE_RANK=0 "$@" &
    _dlrun_ranks+=("$!")
  done
  _dlrun_wait_for_ranks _dlrun_end_here
}

_dlrun_end_here() { _dlrun_terminate "${_dlrun_ranks[@]}"; }
