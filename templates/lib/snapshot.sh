# shellcheck shell=bash disable=SC2154 # variables of lib/job.sh
# Run in the code that was stored at the submission (`code: snapshot`). Sourced by job.sh.

dlrun_use_snapshot() { # DIRECTORY: lay out this run's copy, work/ in its directory, and go to the working directory in it
  local tree='' below='' work=$DLRUN_RUN_DIR/work laid=$DLRUN_RUN_DIR/.work.new root=$1 name names=() version parts=()
  if [[ -e $DLRUN_JOB_DIR/code/snapshot ]]; then mapfile -t parts <"$DLRUN_JOB_DIR/code/snapshot"; fi
  tree=${parts[0]-} below=${parts[1]-}
  if [[ -z $below ]]; then _dlrun_no_snapshot 'none was taken: submit the job with dlrun'; fi
  if [[ ! -d $tree ]]; then _dlrun_no_snapshot "it is not in the store any more: there is no $tree"; fi
  if [[ -d $work ]]; then # of an earlier start, whose program may have written to it
    _dlrun_compare_code "$DLRUN_JOB_DIR/code/snapshot.sha256" "$work" || true
    for name in ${names[@]+"${names[@]}"}; do
      if [[ $name -ef $tree/${name#"$work/"} ]]; then _dlrun_damaged_snapshot "$name"; fi
      _dlrun_code_changed+=("$name")
    done
  else
    rm -rf -- "$laid"
    # Links: the files are read-only, the directories this run's own. Copies if the store is on another file system.
    if ! cp -al -- "$tree" "$laid" 2>/dev/null; then
      rm -rf -- "$laid"
      cp -a -- "$tree" "$laid" || _dlrun_no_snapshot "it cannot be laid out in $work"
    fi
    if ! _dlrun_compare_code "$DLRUN_JOB_DIR/code/snapshot.sha256" "$laid"; then _dlrun_damaged_snapshot "${names[0]-the list}"; fi
    mv -T -- "$laid" "$work" || _dlrun_no_snapshot "it cannot be laid out in $work"
  fi
  if [[ $below != . ]]; then root=${1%"/$below"}; fi
  cd -- "$work/$below" || _dlrun_no_snapshot "it has no directory $below"
  export DLRUN_WORK=$PWD
  version=${tree##*/}
  _dlrun_lead_into PATH "$root" "$work"
  _dlrun_lead_into PYTHONPATH "$root" "$work"
  if ((${#parts[@]} > 2)); then # before the environment's own directories, of which these are in that of the submission
    for name in "${parts[@]:2}"; do export PYTHONPATH=$work/$name${PYTHONPATH:+:$PYTHONPATH}; done
  fi
  _dlrun_on_event gone _dlrun_name_written
  dlrun_log "code: version ${version:0:12} in $work"
}

_dlrun_damaged_snapshot() { # FILE: end the job; without a name the version is made again by the next submission of it
  mv -T -- "$tree" "${tree%/*}/.${tree##*/}.new" 2>/dev/null || true
  _dlrun_no_snapshot "it is damaged: $1 is not what was submitted"
}

_dlrun_no_snapshot() { # WHY: end the job
  _dlrun_reason='no snapshot'
  _dlrun_give_up "code: snapshot: $1"
}

_dlrun_lead_into() { # VARIABLE FROM TO: directories of the submission in a search path are those of the snapshot, if it has them
  local part parts=() text=''
  [[ -n ${!1-} ]] || return 0
  IFS=: read -ra parts <<<"${!1}"
  for part in "${parts[@]}"; do
    if [[ $part == "$2" || $part == "$2/"* ]] && [[ -d $3${part#"$2"} ]]; then part=$3${part#"$2"}; fi
    text+=:$part
  done
  export "$1=${text#:}"
}

_dlrun_name_written() { # log what the program has written to its working directory
  local name names=() text place=$DLRUN_RUN_DIR/work
  while IFS= read -r -d '' name; do names+=("$name"); done < <(
    find "$place" -name __pycache__ -prune -o -type f -newermt 2000-01-02 -printf '%P\0' 2>/dev/null
  )
  if ((${#names[@]} == 0)); then return 0; fi
  printf -v text ', %s' "${names[@]:0:5}"
  if ((${#names[@]} > 5)); then text+=" and $((${#names[@]} - 5)) more"; fi
  dlrun_log "code: the program wrote to $place: ${text#, }"
}
