# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# The sampler: one process on each node, beside the program, records the usage of its ranks in usage/HOST.jsonl. Needs Python 3.

dlrun_measure() { # [PATH of the checkpoints]: the first process of each node starts the sampler, after its program
  ((DLRUN_LOCAL_RANK == 0)) || return 0
  _dlrun_checkpoints=${1-}
  if [[ $_dlrun_checkpoints == [!/]* ]]; then _dlrun_checkpoints=$PWD/$_dlrun_checkpoints; fi
  _dlrun_watch+=' _dlrun_sample'
}

_dlrun_sample() { # without the modules that are installed (-S); not for a program that ends at once: a start takes 0.05 s of a core
  if [[ -n ${DLRUN_PLACE-} ]]; then _dlrun_nap 2; else _dlrun_nap 0.5; fi # of a second's point it would be half of what all computes beside the program
  _dlrun_choose_python || return 0
  cd / && exec "${_dlrun_python[@]}" -S - $$ "$_dlrun_log" "$_dlrun_checkpoints" >/dev/null 2>&1 <"$DLRUN_JOB_DIR/usage.py" # bash opens it once, Python three times
}
