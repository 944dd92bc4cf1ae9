# shellcheck shell=bash disable=SC2154 # variables of lib/job.sh
# In job.sh: the compilers' caches of each node begin with what the user's store has, and what they have in addition goes there.

_dlrun_compiled=()          # the words that name the store and the environment
_dlrun_save=()              # the command that saves, but for --settled
_dlrun_save_by=()           # the command that saves on the first node, where this script runs on another host
_dlrun_save_interval=600    # seconds
_dlrun_save_at=             # the time of the next, in seconds since the start
_dlrun_saved_at_warning=
_dlrun_saver=               # its process, where a step on the first node saves
_dlrun_compiled_in=         # the directory of the store, if it is not that of the job directories

dlrun_keep_compiled() { # BASE KEY OFFSET INDEX COMMAND...: nodes begin with the entries for this machine in the user's store
  local place=${DLRUN_JOB_DIR%/*} id=$DLRUN_RUN_ID store failed # COMMAND starts a step on each node, whose number is the expansion INDEX,
  # and OFFSET of the ports is for the relay, or `-` for one node; in a job that stages data, they come with these
  unset -v DLRUN_COMPILED
  if [[ -n ${_dlrun_of_role-} ]]; then place=${place%/*/*}; fi
  if [[ -n ${DLRUN_PLACE-} ]]; then id=$DLRUN_JOB_ID; fi # points on a node have one rank each, and share what is there
  export DLRUN_CACHES_RUN=${id//[!A-Za-z0-9._-]/-} # where the entries are that all nodes have or none
  failed=("$DLRUN_RUN_DIR"/compiled "$DLRUN_RUN_DIR"/not-seeded*)
  if [[ -e ${failed[0]} || -e ${failed[1]} ]]; then rm -f -- "${failed[@]}"; fi # of an earlier start
  { read -r store <"$DLRUN_JOB_DIR/store"; } 2>/dev/null || store=${_dlrun_compiled_in:-$place}/.dlrun-hub-$EUID
  _dlrun_compiled=(--store "$store" --key "$2") _dlrun_compiled_base=$1 _dlrun_compiled_key=$2
  _dlrun_on_event gone _dlrun_save_at_end
  _dlrun_on_event second _dlrun_save_at_times
  if [[ $_dlrun_host != "${DLRUN_FIRST_HOST%%.*}" ]]; then
    _dlrun_save_by=("${@:5}" bash -p "$DLRUN_JOB_DIR/lib/seed.sh" save "$1" "$2" "$4" "$store")
  fi
  if [[ -d $store && (! -O $store || -d $store/caches--$2) ]]; then
    dlrun_python "$DLRUN_JOB_DIR/node.pyz" compiled-find "${_dlrun_compiled[@]}" --out "$DLRUN_RUN_DIR/compiled" || true
    { read -r DLRUN_COMPILED <"$DLRUN_RUN_DIR/compiled" && export DLRUN_COMPILED; } 2>/dev/null || true # machine, digest, path
  fi
  if declare -F dlrun_stage >/dev/null; then
    if [[ $3 != - ]]; then dlrun_chain_port "$3"; fi
  elif [[ -n ${DLRUN_COMPILED-} ]]; then
    if [[ $3 != - ]]; then dlrun_chain_port "$3"; fi
    export DLRUN_STAGE=$1/dlrun-$DLRUN_USER
    "${@:5}" bash -p "$DLRUN_JOB_DIR/lib/seed.sh" add "$1" "$2" "$4" </dev/null &
    _dlrun_steps=("$!")
    wait "$!" || touch "$DLRUN_RUN_DIR/not-seeded"
    _dlrun_steps=()
    unset -v DLRUN_STAGE
    _dlrun_seeded
  fi
}

_dlrun_seeded() { # the entries have come to the nodes, if there are any: did they reach all?
  local failed name
  [[ -n ${DLRUN_COMPILED-} ]] || return 0
  failed=("$DLRUN_RUN_DIR"/not-seeded*)
  if [[ -e ${failed[0]} ]]; then
    DLRUN_CACHES_RUN+=-new
    dlrun_log "caches: compiled entries did not reach all nodes, which compile by themselves; see $DLRUN_RUN_DIR/logs/stage-*.log"
    for name in "${failed[@]}"; do
      if [[ $(<"$name") == 3 ]]; then continue; fi # a node of another kind: that the archive is whole is not in question
      dlrun_python "$DLRUN_JOB_DIR/node.pyz" compiled-check "${_dlrun_compiled[@]}" || true
      break
    done
  else
    dlrun_log "caches: the nodes begin with the compiled entries of earlier jobs"
  fi
}

_dlrun_save_at_times() { # at the signal to save a checkpoint, and at intervals
  _dlrun_read_clock
  if [[ -n ${_dlrun_warning_sent-} && -z $_dlrun_saved_at_warning ]]; then _dlrun_saved_at_warning=1 _dlrun_save_at=0; fi
  if ((_dlrun_now < ${_dlrun_save_at:=$((_dlrun_now + _dlrun_save_interval))})); then return 0; fi
  _dlrun_save_at=$((_dlrun_now + _dlrun_save_interval))
  if ((${#_dlrun_save_by[@]} == 0)); then
    if _dlrun_has_compiled; then dlrun_start_watcher "${_dlrun_save[@]}" --settled 10s; fi
  elif [[ -z $_dlrun_saver ]] || ! kill -0 "$_dlrun_saver" 2>/dev/null; then # a scheduler may let it wait for the ranks' cores
    dlrun_start_watcher _dlrun_save_beside
    _dlrun_saver=${_dlrun_beside[-1]}
  fi
}

_dlrun_save_beside() { # the ranks, which have all that Slurm gives to steps
  unset -v SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU # srun accepts only one of the three
  export SLURM_OVERLAP=1 SLURM_MEM_PER_NODE=0
  [[ $(type -t "${_dlrun_save_by[0]}") == function ]] || exec "${_dlrun_save_by[@]}" --settled 10s
  "${_dlrun_save_by[@]}" --settled 10s
}

_dlrun_save_at_end() { # what was written in the last seconds before a failure may not be complete
  local longest=120 settled=10
  if ((_dlrun_status == 0)) && [[ -z ${DLRUN_PLACE-} ]]; then settled=0; fi # other points may still write
  if [[ -n ${_dlrun_warning_sent-} ]]; then longest=10; fi
  if [[ -n $_dlrun_asked ]]; then longest=5; fi
  if ((${#_dlrun_save_by[@]})); then
    _dlrun_save=("${_dlrun_save_by[@]}")
  else
    _dlrun_has_compiled || return 0
  fi
  _dlrun_within "$((10 * longest))" "${_dlrun_save[@]}" --settled "${settled}s" || true
}

dlrun_save_here() { # BASE KEY INDEX STORE --settled TIME: on the first node, in a step
  _dlrun_compiled=(--store "$4" --key "$2") _dlrun_compiled_base=$1 _dlrun_compiled_key=$2
  if _dlrun_has_compiled; then "${_dlrun_save[@]}" "${@:5}"; fi
}

_dlrun_some_compiled() { # false if the tools' directories are empty: without a process, for in most points they are
  local base text
  for base in "$_dlrun_compiled_base" /tmp; do
    printf -v text %q "$base/dlrun-caches-${DLRUN_USER:-$EUID}/$_dlrun_compiled_key" # nothing in the path is a pattern
    if compgen -G "$text/*/*" >/dev/null || compgen -G "$text/.[!.]*/*" >/dev/null; then return 0; fi
  done
  return 1
}

_dlrun_has_compiled() { # true if there is anything; sets the command that saves it
  local place=''
  _dlrun_some_compiled || return 1
  _dlrun_place_caches "$_dlrun_compiled_base" && place+=/$_dlrun_compiled_key && [[ -d $place ]] || return 1
  _dlrun_save=(
    bash -p "$DLRUN_JOB_DIR/lib/python.sh" "$DLRUN_JOB_DIR/node.pyz"
    compiled-save "${_dlrun_compiled[@]}" --from "$place" --run "$DLRUN_CACHES_RUN"
  )
  [[ -n $(find "$place" -type f ! -name .used -print -quit 2>/dev/null) ]]
}
