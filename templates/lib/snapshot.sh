# shellcheck shell=bash disable=SC2154 # variables of lib/job.sh
# Run in the code that was stored at the submission (`code: snapshot`). Sourced by job.sh.

dlrun_use_snapshot() { # DIRECTORY [own]: lay out this run's copy, work/ in its directory, and go to the working directory in it
  local tree='' below='' work=$DLRUN_RUN_DIR/work laid root=$1 name names=() version parts=()
  if [[ -n ${_dlrun_of_role-} && ${2-} != own ]]; then work=${DLRUN_JOB_DIR%/roles/*}/work; fi # all roles of a job are in one copy
  laid=${work%/work}/.work.new${_dlrun_of_role-}
  rm -f -- "$DLRUN_RUN_DIR/in-place-code"
  if [[ -e $DLRUN_JOB_DIR/code/snapshot ]]; then mapfile -t parts <"$DLRUN_JOB_DIR/code/snapshot"; fi
  tree=${parts[0]-} below=${parts[1]-}
  if [[ -z $below ]]; then _dlrun_no_snapshot 'none was taken: submit the job with dlrun'; fi
  if [[ ! -d $tree ]]; then _dlrun_no_snapshot "it is not in the store any more: there is no $tree"; fi
  version=$(sha256sum <"$DLRUN_JOB_DIR/code/snapshot.sha256") || version=
  # By an empty list nothing would be compared: a power cut may leave names of files without their content.
  if [[ ${version%% *} != "${tree##*/}" ]]; then _dlrun_damaged_snapshot "$DLRUN_JOB_DIR/code/snapshot.sha256"; fi
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
    if ! mv -T -- "$laid" "$work" 2>/dev/null; then rm -rf -- "$laid"; fi # another role may have been the first
    [[ -d $work ]] || _dlrun_no_snapshot "it cannot be laid out in $work"
  fi
  if [[ $below != . ]]; then root=${1%"/$below"}; fi
  cd -- "$work/$below" || _dlrun_no_snapshot "it has no directory $below"
  export DLRUN_WORK=$PWD
  _dlrun_work=$work
  version=${tree##*/}
  _dlrun_lead_into "$root" "$work"
  if [[ ! -d $1 ]]; then
    dlrun_log "code: there is no $1 any more, which \`submit_dir\` names"
    export DLRUN_SUBMIT_DIR=$work # for a container, which can mount only what is there
  fi
  if ((${#parts[@]} > 2)); then # before the environment's own directories, of which these are in that of the submission
    for name in "${parts[@]:2}"; do export PYTHONPATH=$work/$name${PYTHONPATH:+:$PYTHONPATH}; done
  fi
  _dlrun_on_event gone _dlrun_name_written
  dlrun_log "code: version ${version:0:12} in $work"
}

dlrun_work_on_nodes() { # ranks run in the copies of work/ that the nodes have, from which what they write is copied back
  local copy=$DLRUN_STAGE/.results-code-${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-}/work reason
  if { read -r reason <"$DLRUN_RUN_DIR/in-place-code"; } 2>/dev/null; then
    dlrun_log "code: read from $_dlrun_work: $reason"
    return 0
  fi
  export DLRUN_WORK=$copy${DLRUN_WORK#"$_dlrun_work"}
  _dlrun_lead_into "$_dlrun_work" "$copy" "$_dlrun_work"
  _dlrun_away=$copy
  if [[ -d $copy ]]; then # else no rank is on this node; rank.sh goes there, too
    cd -- "$DLRUN_WORK" || _dlrun_no_snapshot "there is no $DLRUN_WORK on this node"
  fi
  _dlrun_on[asked]=" _dlrun_leave_copy${_dlrun_on[asked]}"
  _dlrun_on[gone]=" _dlrun_leave_copy${_dlrun_on[gone]/ _dlrun_name_written/} _dlrun_name_written" # once it is there again
}

_dlrun_leave_copy() { # the copies are removed at the end
  cd -- "$DLRUN_RUN_DIR" || true
}

_dlrun_damaged_snapshot() { # FILE: end the job; without a name the version is made again by the next submission of it
  mv -T -- "$tree" "${tree%/*}/.${tree##*/}.new" 2>/dev/null || true
  _dlrun_no_snapshot "it is damaged: $1 is not what was submitted"
}

_dlrun_no_snapshot() { # WHY: end the job
  _dlrun_reason='no snapshot'
  _dlrun_give_up "code: snapshot: $1"
}

_dlrun_lead_into() { # FROM TO [LIKE]: what search paths and a container's mounts name of the submission is the snapshot's, if it, or LIKE, has it
  local name part parts text
  for name in PATH PYTHONPATH "${!DLRUN_MOUNT_@}"; do
    if [[ -z ${!name-} ]]; then continue; fi
    IFS=: read -ra parts <<<"${!name}"
    text=''
    for part in "${parts[@]}"; do
      if [[ $part == "$1" || $part == "$1/"* ]] && [[ -e ${3-$2}${part#"$1"} ]]; then part=$2${part#"$1"}; fi
      text+=:$part
    done
    export "$name=${text#:}"
  done
}

_dlrun_name_written() { # log what the program has written to its working directory
  local name names=() text place=$_dlrun_work
  while IFS= read -r -d '' name; do names+=("$name"); done < <(
    find "$place" -name __pycache__ -prune -o -type f -newermt 2000-01-02 -printf '%P\0' 2>/dev/null
    # A copy of a file of the code may have its time, and not its name.
    find "$place" -name __pycache__ -prune -o -type f ! -newermt 2000-01-02 ! -name $'*[\\\\\n]*' -printf '%P\n' 2>/dev/null |
      LC_ALL=C grep -vxF -f <(sed -n 's/^[0-9a-f]\{64\}  //p' "$DLRUN_JOB_DIR/code/snapshot.sha256") | tr '\n' '\0'
  )
  if ((${#names[@]} == 0)); then return 0; fi
  printf -v text ', %s' "${names[@]:0:5}"
  if ((${#names[@]} > 5)); then text+=" and $((${#names[@]} - 5)) more"; fi
  dlrun_log "code: the program wrote to $place: ${text#, }"
}
