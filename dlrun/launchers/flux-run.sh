# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Ranks started by Flux: its brokers start them, not this shell, so signals go by the run's id.

dlrun_flux() { # FLUX OPTION... COMMAND...: a run of this job's own instance; its exit code is the ranks' highest
  _dlrun_flux=$1
  shift
  trap - EXIT
  export DLRUN_OWN_SOCKET=PMI_FD # a daemon that a rank leaves has it, too (rank.sh)
  _dlrun_flux_id=$("$_dlrun_flux" submit "$@") || exit
  trap _dlrun_cancel_run TERM
  if [[ -n ${_dlrun_carrier-} ]]; then
    trap '_dlrun_signalled=1; "$_dlrun_flux" job kill --signal="$_dlrun_carrier" "$_dlrun_flux_id" || true' "$_dlrun_carrier"
  fi
  "$_dlrun_flux" job attach --read-only "$_dlrun_flux_id" & # ends with the run
  _dlrun_ranks=("$!")
  _dlrun_wait_for_ranks true
}

_dlrun_cancel_run() { # without what `attach` prints of a cancellation
  trap : TERM # it may come twice
  set +e
  kill "${_dlrun_ranks[@]}" 2>/dev/null
  "$_dlrun_flux" cancel "$_dlrun_flux_id" 2>/dev/null
  "$_dlrun_flux" job wait-event --quiet "$_dlrun_flux_id" clean 2>/dev/null
  exit 143
}

dlrun_flux_beside() { # the same, for processes that wait beside the ranks: they get no cores, which the ranks may need all of
  local option hosts='' all ranks i
  for option in "${@:2}"; do
    if [[ $option == --requires=host:* ]]; then hosts=${option#*:}; fi
  done
  "$1" jobtap load alloc-bypass.so 2>/dev/null # an error if it is there already
  all=$("$1" getattr hostlist) ranks=0-$(($("$1" getattr size) - 1))
  if [[ -n $hosts ]]; then
    ranks='' i=0
    for option in $("$1" hostlist --expand --delimiter=' ' "$all"); do
      if [[ ,$hosts, == *",$option,"* ]]; then ranks+=${ranks:+,}$i; fi
      i=$((i + 1))
    done
    all=$hosts
  fi
  if all=$("$1" R encode --ranks="$ranks" --cores=0 --hosts="$all") && [[ $("$1" jobtap list) == *alloc-bypass* ]]; then
    set -- "$1" "--setattr=system.alloc-bypass.R=$all" "${@:2}"
  fi
  dlrun_flux "$@"
}
