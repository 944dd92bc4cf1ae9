# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# pool.py runs this file to start a point where no command of the scheduler passes signals on: a shell on the host does.
#   bash step.sh HOST SIGNAL WORDS COMMAND... bash job.sh POINT PLACE STARTS
# COMMAND... has so many WORDS and runs a program on a host; SIGNAL is the one that goes to the point besides SIGTERM. With `true`
# after COMMAND it is the exit code that counts: does the host answer? A program that ends in `hold` lasts as long as its input.

set -uo pipefail
_dlrun_copies=${DLRUN_COPIES:-0}
# shellcheck source=job.sh
source "$DLRUN_JOB_DIR/lib/job.sh"
dlrun_source start ssh
if [[ ${*: -1} == true ]]; then
  [[ $(type -t "$4") == function ]] || exec "${@:4:$3}" "$1" true
  "${@:4:$3}" "$1" true
  exit
fi
if [[ ${*: -1} == hold ]]; then # of holders.py, which ends it with its standard input
  {
    dlrun_exported
    printf 'exec'
    printf ' %q' "${@:4+$3}"
    echo
    exec cat
  } | "${@:4:$3}" "$1" bash -s
  exit
fi
export DLRUN_POINT=${*: -3:1} DLRUN_RESTART=${*: -1}
export DLRUN_RUN_DIR=$DLRUN_JOB_DIR/points/$DLRUN_POINT DLRUN_RUN_ID=$DLRUN_JOB_ID-$DLRUN_POINT.$DLRUN_RESTART
_dlrun_carrier=$2
_dlrun_grace=$((_dlrun_grace + 3 + _dlrun_copies)) # job.sh ends its ranks first, copies their results, and then writes its record
_dlrun_outlasts=1 # PBS signals all processes here, and what waits for the point has to see its end
printf '%s\n' "$1" >"$DLRUN_RUN_DIR/hosts-first"
dlrun_ssh "$DLRUN_RUN_DIR/hosts-first" 1 1 "${@:3}"
