# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Beside the program, one process of each node: what the node's ranks use, in usage/HOST.jsonl. Without Python 3 there is none.

dlrun_measure() { # [PATH]: one of the node's processes starts it, once its program has started; PATH: where checkpoints appear
  ((DLRUN_LOCAL_RANK == 0)) || return 0
  _dlrun_checkpoints=${1-}
  if [[ $_dlrun_checkpoints == [!/]* ]]; then _dlrun_checkpoints=$PWD/$_dlrun_checkpoints; fi
  _dlrun_watch+=' _dlrun_sample'
}

_dlrun_sample() { # an interpreter of the job's environment; the user's modules are not imported (-I, -S)
  cd / && exec python3 -I -S - $$ "$_dlrun_log" "$_dlrun_checkpoints" >/dev/null 2>&1 <"$DLRUN_JOB_DIR/usage.py" # bash opens it once, Python three times
}
