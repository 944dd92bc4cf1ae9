# shellcheck shell=bash disable=SC2154 # variables of lib/job.sh
# Compare the code with what was submitted (code/ in the job directory), at each start of the job. Sourced by lib/job.sh.

_dlrun_code_checked=   # set once this start has been compared
_dlrun_code_changed=() # files that the run itself has changed in its copy of a snapshot

dlrun_check_code() { # MODE: log and record what has changed since the submission; `strict`: then end the job
  if [[ -n $_dlrun_code_checked || ! -d $DLRUN_JOB_DIR/code ]]; then return 0; fi
  _dlrun_code_checked=1
  local list=$DLRUN_JOB_DIR/code/files.sha256 names=() code=0 line last='' more='' note=''
  # Twenty seconds: a slow file system delays the job, but does not keep it from running.
  if [[ -s $list ]] && ! { [[ $1 != strict ]] && _dlrun_recall code 60 && [[ $note == "$DLRUN_JOB_DIR" ]]; }; then
    _dlrun_compare_code "$list" / timeout 20 || code=$?
    if ((code == 0 && ${#names[@]} == 0)); then _dlrun_remember code "$DLRUN_JOB_DIR"; fi
  fi
  names+=(${_dlrun_code_changed[@]+"${_dlrun_code_changed[@]}"})
  _dlrun_find_missing_distributions
  _dlrun_record_code "$code"
  if ((${#names[@]})); then
    last=${names[0]#"$PWD/"}
    if ((${#names[@]} > 1)); then more=" and $((${#names[@]} - 1)) more"; fi
    if [[ $1 == strict ]]; then
      _dlrun_reason='code changed'
      _dlrun_give_up "code: strict: $last$more changed since the submission"
    fi
    dlrun_log "code: $last$more changed since the submission"
  elif ((code)); then
    if [[ $1 == strict ]]; then
      _dlrun_reason='code changed'
      _dlrun_give_up "code: strict: the files could not be compared with those of the submission (exit code $code of sha256sum)"
    fi
    dlrun_log "code: the files could not be compared with those of the submission (exit code $code of sha256sum)"
  fi
}

_dlrun_compare_code() { # LIST DIRECTORY [WORD...]: add the files that differ from the list to `names`; true if none does
  local line text='' code=0
  while IFS= read -r line && [[ $line == '#'* || -z $line ]]; do :; done <"$1"
  if [[ $line == '#'* || -z $line ]]; then return 0; fi # sha256sum takes a list without files for a wrong one
  text=$(cd -- "$2" && LC_ALL=C "${@:3}" sha256sum --check --quiet -- "$1" 2>/dev/null) || code=$?
  while IFS= read -r line; do
    if [[ $line =~ ^(\\?)(.*):\ FAILED(\ open\ or\ read)?$ ]]; then
      line=${BASH_REMATCH[2]}
      if [[ -n ${BASH_REMATCH[1]} ]]; then line=${line//\\\\/\\}; fi
      if [[ $line != /* ]]; then line=$2/$line; fi
      names+=("$line")
    fi
  done <<<"$text"
  return "$code"
}

_dlrun_find_missing_distributions() { # add those that are no longer installed to `names`; a place that this node lacks says nothing
  local what place
  [[ -s $DLRUN_JOB_DIR/code/distributions ]] || return 0
  while IFS=$'\t' read -r what place; do
    if [[ ! -d $place && -d ${place%/*} ]]; then names+=("$what (package)"); fi
  done <"$DLRUN_JOB_DIR/code/distributions"
}

_dlrun_record_code() { # STATUS: append to code-starts: this start, and the digest of each changed file, `-` if it is gone
  local name count=0 when
  printf -v when '%(%s)T' -1
  {
    printf 'start %s %s %s %s\n' "${DLRUN_RESTART:-0}" "$when" "$1" "${#names[@]}"
    for name in ${names[@]+"${names[@]}"}; do
      if ((++count > 50)); then break; fi
      line=$(sha256sum -- "$name" 2>/dev/null) || line=-
      line=${line#\\}
      printf '%s %s\n' "${line%% *}" "$name"
    done
  } >>"$DLRUN_RUN_DIR/code-starts" 2>/dev/null || true
}
