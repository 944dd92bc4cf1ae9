# shellcheck shell=bash disable=SC2154 # variables of job.sh
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

_dlrun_flux_around= # the URI of the instance that this job is a job of, where this is the script of a batch job
_dlrun_flux_several= # set where that has a broker on other nodes, too

_dlrun_flux_arm() {
  trap '_dlrun_end_by "the walltime was exceeded" 142 "timed out"' ALRM
  if [[ -z $_dlrun_flux_around ]]; then return 0; fi
  trap _dlrun_flux_leaves HUP
  trap '_dlrun_flux_finish "$?"' EXIT
}

_dlrun_flux_start() { # not where job.sh runs in a terminal of the user, whose SIGHUP it ignores
  local parent=''
  { read -r parent <"/proc/$PPID/comm"; } 2>/dev/null || true
  if [[ $parent != flux-broker* ]]; then return 0; fi
  exec 2>&1 # Flux delivers two streams, and an error before lines that were written earlier
  _dlrun_flux_around=$(flux getattr parent-uri 2>/dev/null) || true
  if [[ -n $_dlrun_flux_around && $(<"$DLRUN_HOSTS") == *$'\n'* ]]; then _dlrun_flux_several=1; fi
  _dlrun_flux_arm
}

_dlrun_flux_patience=120 # seconds

_dlrun_flux_await_brokers() { # of the other nodes, for which Flux itself would wait until the walltime (`broker.quorum` in the directives)
  local hosts what
  if [[ -z $_dlrun_flux_several || ${DLRUN_REPLACED-} == "$DLRUN_JOB_ID "* ]]; then return 0; fi # there, a node is lost
  what=$(timeout "$_dlrun_flux_patience" flux overlay status --summary --timeout=0 --wait=full 2>/dev/null) || true
  if [[ $what == full* ]]; then return 0; fi
  hosts=$(flux resource list --states=down --no-header --format='{nodelist}' 2>/dev/null) || true
  what="${hosts:-some nodes}: no connection to the broker on $_dlrun_host in $_dlrun_flux_patience s"
  dlrun_log "not answering any more: $what"
  if [[ -n $hosts ]] && declare -F dlrun_choose_nodes >/dev/null; then # there, a check of such a node would delay those of all others
    _dlrun_away=" $(flux hostlist --expand --delimiter=' ' "$hosts") "
    return 0
  fi
  _dlrun_reason='node failed'
  printf '%s node 0 %s 255 node failed: %s\n' "$(date +%s%N)" "${hosts:-$_dlrun_host}" "$what" >"$DLRUN_RUN_DIR/failures/node-0"
  exit 1
}

_dlrun_flux_leaves() { # the broker shuts down, as at `flux shutdown JOB`, and waits for this script
  sleep 0.3 # a signal that comes with this one says more
  _dlrun_end_by 'asked to end' 143 'asked to end'
}

_dlrun_flux_lost_broker() { # true if the broker that started this script was killed: what had a connection to it knows it first
  local stat='' status tries
  for ((tries = 0; tries < 10; tries++)); do
    { read -r stat <"/proc/$PPID/stat"; } 2>/dev/null || return 0
    if [[ ${stat##*) } == [ZX]* ]]; then return 0; fi # flux-shell has not waited for it yet
    status=0
    PATH=$_dlrun_path FLUX_LOCAL_CONNECTOR_RETRY_COUNT=0 timeout 2 flux getattr rank >/dev/null 2>&1 || status=$?
    if ((status == 0 || status == 124)); then return 1; fi # it answers, or hangs
    sleep 0.1
  done
  return 1
}

_dlrun_flux_finish() { # STATUS: without the first node's broker, the others go on, and so does the job of Flux
  if ((BASHPID == $$)) && _dlrun_flux_lost_broker; then
    dlrun_log "the broker on $_dlrun_host is gone: the scheduler is asked to end the job"
    _dlrun_asked=1
    FLUX_URI=$_dlrun_flux_around PATH=$_dlrun_path flux job raise --type=exec --severity=0 \
      --message="the broker on $_dlrun_host is gone" "$DLRUN_JOB_ID" || true
  fi
  _dlrun_finish "$1"
}

_dlrun_flux_leave() { # the broker waits without limit for those of other nodes, also where there is no network to them any more
  local what
  if [[ -z $_dlrun_flux_several ]]; then return 0; fi
  what=$(PATH=$_dlrun_path timeout 5 flux overlay status --summary 2>/dev/null) || true
  (_dlrun_flux_see_end "$PPID" "${what:-full}") </dev/null >/dev/null 2>&1 &
}

_dlrun_flux_see_end() { # BROKER OVERLAY: end the job of Flux where it does not end by itself
  local started='' tries
  { read -r started <"/proc/$1/stat"; } 2>/dev/null || true
  # shellcheck source=standby.sh
  source "$DLRUN_JOB_DIR/lib/standby.sh"
  _dlrun_detach
  export PATH=$_dlrun_path FLUX_URI=$_dlrun_flux_around
  for ((tries = 0; tries < 300; tries++)); do
    sleep 0.1
    if _dlrun_is_same "$1" "$started"; then continue; fi
    if [[ $2 == full* ]]; then return 0; fi
    timeout 20 flux job wait-event --quiet --timeout=10s "$DLRUN_JOB_ID" finish && return 0
    break
  done
  timeout 20 flux job raise --type=exec --severity=0 --message='a node of this job cannot be reached' "$DLRUN_JOB_ID"
}

if declare -F _dlrun_on_event >/dev/null; then # not where only points are submitted
  _dlrun_on_event arm _dlrun_flux_arm
  _dlrun_on_event start _dlrun_flux_start
  _dlrun_on_event begun _dlrun_flux_await_brokers
  _dlrun_on_event over _dlrun_flux_leave
fi

# `flux batch` takes a quarter of a second for each point, so it makes the request once, with marks, and one process submits copies.
dlrun_flux_points() { # SCRIPT POINTS AT_ONCE: submit each point of a sweep as a job, and print the ids; AT_ONCE 0: all at once
  local options
  mapfile -t options < <(sed -n 's/^# flux: --\(\(urgency\|flags\)=[a-z0-9,]*\).*/\1/p' "$1") # not parts of the request
  {
    _dlrun_flux_request "$1" || exit
    if (($3 && $2 > $3)); then _dlrun_flux_request --dependency=afterany:@dlrun-before@ "$1" || exit; fi
  } | flux python -c "$_dlrun_flux_program" "$2" "$3" ${options[@]+"${options[@]}"}
}

# shellcheck disable=SC2016 # Python
_dlrun_flux_program='
import sys
import flux, flux.job
requests, options = sys.stdin.read().splitlines(), dict(one.split("=", 1) for one in sys.argv[3:])
points, at_once = int(sys.argv[1]), int(sys.argv[2])
flags = dict.fromkeys(filter(None, options.get("flags", "").split(",")), True)
handle, sent = flux.Flux(), []
if len(requests) != 1 + (0 < at_once < points): # flux batch has said why
    sys.exit(1)
try:
    for point in range(points):
        later = 0 < at_once <= point
        text = requests[1].replace("@dlrun-before@", sent[point - at_once].get_id().f58plain) if later else requests[0]
        text = text.replace("@dlrun-point@", str(point))
        sent.append(flux.job.submit_async(handle, text, urgency=int(options.get("urgency", 16)), **flags))
    print(*(one.get_id().f58plain for one in sent), sep="\n")
except (OSError, TypeError) as error:
    for one in sent: # all of them or none
        try:
            flux.job.cancel(handle, one.get_id())
        except OSError:
            pass
    sys.exit("flux: %s" % (getattr(error, "strerror", None) or error))
'

_dlrun_flux_request() { # OPTION... SCRIPT: what `flux batch` would submit for the point @dlrun-point@
  DLRUN_FLUX_POINT=@dlrun-point@ flux batch --dry-run --output=points/@dlrun-point@/logs/job.log "$@"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then dlrun_flux_points "$@"; fi # bash lib/flux.sh SCRIPT POINTS AT_ONCE
