# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Beside the program, one process of each node: what the node's ranks use, in usage/HOST.jsonl. Without Python 3 there is none.

dlrun_measure() { # one of the node's processes starts it, once its program has started
  if ((DLRUN_LOCAL_RANK == 0)); then _dlrun_watch+=' _dlrun_sample'; fi
}

_dlrun_sample() { # an interpreter of the job's environment; the user's modules are not imported (-I, -S)
  cd / && exec python3 -I -S "$DLRUN_JOB_DIR/usage.pyz" $$ </dev/null >/dev/null 2>&1
}
