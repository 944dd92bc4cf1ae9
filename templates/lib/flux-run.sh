# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Ranks started by Flux: its brokers start them, not this shell, so signals go by the run's id.

dlrun_flux() { # FLUX OPTION... COMMAND...: a run of this job's own instance; its exit code is the ranks' highest
  _dlrun_flux=$1
  shift
  trap - EXIT
  _dlrun_flux_id=$("$_dlrun_flux" submit "$@") || exit
  trap '"$_dlrun_flux" cancel "$_dlrun_flux_id" 2>/dev/null; wait; exit 143' TERM
  if [[ -n ${_dlrun_carrier-} ]]; then
    trap '_dlrun_signalled=1; "$_dlrun_flux" job kill --signal="$_dlrun_carrier" "$_dlrun_flux_id" || true' "$_dlrun_carrier"
  fi
  "$_dlrun_flux" job attach --read-only "$_dlrun_flux_id" & # ends with the run
  _dlrun_ranks=("$!")
  _dlrun_wait_for_ranks true
}
