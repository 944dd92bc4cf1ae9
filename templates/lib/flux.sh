# shellcheck shell=bash
# What Flux does differently: it ends a job by SIGALRM, runs its script in an instance of its own, and has no arrays.

dlrun_client() { # flux ARGUMENT...: in the instance that this job is a job of
  local id
  id=$(flux --parent "${@:2}") && printf '%s\n' "${id/#ƒ/f}"
}

# Flux kills what still runs 5 s after SIGTERM, and the other nodes' brokers have left by then: each node's standby does its part
# (lib/standby.sh), and no step can be started.
export DLRUN_GRACE=${DLRUN_GRACE:-3}
_dlrun_grace=$DLRUN_GRACE
_dlrun_left_to_end=3 # seconds

_dlrun_flux_limit() { trap 'dlrun_log "the walltime was exceeded"; _dlrun_asked=1 _dlrun_reason="timed out"; exit 142' ALRM; }
if declare -F _dlrun_on_event >/dev/null; then _dlrun_on_event arm _dlrun_flux_limit; fi # not where only points are submitted

# `flux batch` takes a quarter of a second for each point, so it makes the request once, with marks, and `flux job submit` sends copies.
dlrun_flux_points() { # SCRIPT POINTS AT_ONCE: submit each point of a sweep as a job, and print the ids; AT_ONCE 0: all at once
  local script=$1 points=$2 at_once=$3 ids=() id i first='' rest='' text options
  mapfile -t options < <(sed -n 's/^# flux: \(--\(urgency\|flags\)=[a-z0-9,]*\).*/\1/p' "$script") # not parts of the request
  first=$(_dlrun_flux_request "$script") || return 1
  if ((at_once && points > at_once)); then rest=$(_dlrun_flux_request --dependency=afterany:@dlrun-before@ "$script") || return 1; fi
  for ((i = 0; i < points; i++)); do
    text=$first
    if ((at_once && i >= at_once)); then text=${rest//@dlrun-before@/${ids[i - at_once]}}; fi
    id=$(flux job submit ${options[@]+"${options[@]}"} <<<"${text//@dlrun-point@/$i}") || {
      if ((i)); then flux cancel "${ids[@]}"; fi # all of them or none
      return 1
    }
    ids+=("$id")
  done
  printf '%s\n' "${ids[@]}"
}

_dlrun_flux_request() { # OPTION... SCRIPT: what `flux batch` would submit for the point @dlrun-point@
  DLRUN_FLUX_POINT=@dlrun-point@ flux batch --dry-run --output=points/@dlrun-point@/logs/job.log "$@"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then dlrun_flux_points "$@"; fi # bash lib/flux.sh SCRIPT POINTS AT_ONCE
