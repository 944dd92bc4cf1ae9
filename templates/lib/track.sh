# shellcheck shell=bash
# In rank 0 of a job with `track`: names for experiment trackers that stay the same whenever the job is started again.

dlrun_track() { # PLAN: export DLRUN_TRACK_ID, DLRUN_PLAN (a digest) and DLRUN_COMMIT (empty without git)
  local line commit='' dirty=''
  export DLRUN_PLAN=$1 DLRUN_COMMIT='' DLRUN_TRACK_ID
  _dlrun_name_run
  [[ -r $DLRUN_JOB_DIR/code/record.json ]] || return 0
  while IFS= read -r line; do
    if [[ -z $commit && $line =~ ^\ +\"commit\":\ \"([0-9a-f]{12})[0-9a-f]*\" ]]; then commit=${BASH_REMATCH[1]}; fi
    if [[ $line =~ ^\ +\"dirty\":\ true ]]; then dirty=-dirty; fi
    if [[ $line =~ ^\ +\"dirty\":\ null ]]; then dirty=-unchecked; fi
  done <"$DLRUN_JOB_DIR/code/record.json"
  DLRUN_COMMIT=${commit:+$commit$dirty}
}

dlrun_default() { # NAME VALUE: set it, unless the user, a module or the site has
  if [[ ! -v $1 ]]; then export "$1=$2"; fi
}
