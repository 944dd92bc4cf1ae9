# shellcheck shell=bash disable=SC2154 # variables of the job
# In image.sh, on one node of a job: the image of its container comes into the user's store, once for all ranks, nodes and jobs.
# image.json in the job directory is a link to the image's mark in the store, which keeps it there and has its digest.

_dlrun_digest=  # of the image, empty while it is not known
_dlrun_of_file= # set if that is the digest of the file, as no registry has given one
_dlrun_reason=  # why the image is not there

dlrun_missing_secret() { # NAME WHAT: a secret could not be read
  echo "dlrun: secret $1 could not be read: $2"
  exit 1
}

dlrun_pull() { # ROOM URI DIGEST FOLDER [NAME HOST REPOSITORY REFERENCE]: leaves the path in the file `image` of the run's directory
  local tries                                    # DIGEST is empty if it is not known; NAME is the URI without tag and digest
  umask 077
  exec 8>>"$DLRUN_JOB_DIR/image.lock"
  if ! flock -n 8; then # the points of a sweep have one job directory
    echo "dlrun: the image $2: another part of this job pulls it; waiting for it"
    flock 8
  fi
  for ((tries = 1; ; tries++)); do
    _dlrun_reason=
    if _dlrun_find_digest "$2" "$3" "${@:6}" && _dlrun_fetch_image "$@"; then return 0; fi
    if ((tries == 3)) || ! _dlrun_may_pass; then break; fi
    echo "dlrun: the image $2: $_dlrun_reason; the next attempt is in $((tries * 15)) s"
    sleep $((tries * 15))
  done
  _dlrun_name_fault "$2"
  exit 1
}

_dlrun_find_digest() { # URI DIGEST [HOST REPOSITORY REFERENCE]: false if the registry has no such image, or is asked too often
  local word rest
  _dlrun_digest=$(_dlrun_in_mark digest) # of an earlier start, or another point
  if [[ -n $_dlrun_digest ]]; then
    _dlrun_of_file=$(_dlrun_in_mark of_file)
    _dlrun_of_file=${_dlrun_of_file%false}
    return 0
  fi
  _dlrun_digest=$2
  if [[ -z $_dlrun_digest && -n ${3-} ]]; then
    read -r word rest < <(dlrun_python "$DLRUN_JOB_DIR/node.pyz" image-digest "${@:3}") || true
    case ${word-} in
    digest) _dlrun_digest=$rest ;;
    missing) _dlrun_reason="the registry $3 has no such image" ;;
    limited) _dlrun_reason="the registry $3 answered 429" ;;
    none) echo "dlrun: the image $1: the registry $3 does not give its digest: $rest" ;;
    esac
  fi
  _dlrun_of_file=
  if [[ -z $_dlrun_digest ]]; then _dlrun_of_file=true; fi
  [[ -z $_dlrun_reason ]]
}

_dlrun_in_mark() { # KEY: print its value in the mark of the image that this job has
  sed -n 's/^ "'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},$/\1/p' "$DLRUN_JOB_DIR/image.json" 2>/dev/null
}

_dlrun_fetch_image() { # ROOM URI DIGEST FOLDER [NAME …]: into the store, unless it is there; false, with the reason, if that fails
  local store place word rest path='' uri=$2
  place=${DLRUN_JOB_DIR%/*}
  if [[ $place == */roles && -e ${place%/*}/roles.json ]]; then place=${place%/*/*}; fi
  { read -r store <"$DLRUN_JOB_DIR/image-store"; } 2>/dev/null || store=$place/.dlrun-hub-$EUID
  if [[ -n $_dlrun_digest && -z $_dlrun_of_file && -n ${5-} ]]; then uri=$5@$_dlrun_digest; fi # a tag beside a digest is refused
  while read -r word rest; do
    case $word in
    say) echo "dlrun: the image $2: $rest" ;;
    none) _dlrun_reason=none ;;
    fail) _dlrun_reason=$rest ;;
    done) path=${rest#* } ;;
    esac
  done < <(
    export base=${store%/*} repository=$4 uri digest=$_dlrun_digest of_file=${_dlrun_of_file:-false} date room=$1 encoded
    printf -v date '%(%s)T' -1
    encoded=${2//\\/\\\\}
    encoded=\"${encoded//\"/\\\"}\"
    exec bash -p "$DLRUN_JOB_DIR/lib/to-store.sh" 8>&-
  )
  if [[ -z $path ]]; then
    _dlrun_reason=${_dlrun_reason:-the program that pulls it was ended}
    return 1
  fi
  if [[ -n $_dlrun_digest && ${path%/*} != */"${_dlrun_digest#sha256:}"-* ]]; then
    echo "dlrun: the image $2 is not what the job began with: its file is now ${path%/*}"
    exit 1
  fi
  if [[ ! ${path%/*}.json -ef $DLRUN_JOB_DIR/image.json ]] && ! ln -f -- "${path%/*}.json" "$DLRUN_JOB_DIR/image.json"; then
    _dlrun_reason='it was removed from the store meanwhile'
    return 1
  fi
  _dlrun_digest=$(_dlrun_in_mark digest)
  echo "dlrun: the image $2: in the store, $_dlrun_digest, at $path"
  printf '%s\n' "$path" >"$DLRUN_RUN_DIR/image"
}

_dlrun_may_pass() { # is the reason one that is often gone after a while?
  [[ $_dlrun_reason =~ 429|[Tt]oo\ ?[Mm]any\ ?[Rr]equests|timeout|timed\ out|refused|reset|unreachable|no\ such\ host|EOF|\ 50[0234]|meanwhile ]]
}

_dlrun_name_fault() { # URI: what the user reads, and `dlrun why`
  case $_dlrun_reason in
  none) echo "dlrun: the image $1 is pulled here, and neither apptainer nor singularity is on PATH" ;;
  *[Nn]o\ space\ left* | *[Qq]uota\ exceeded*) echo "dlrun: there is no room for the image $1: $_dlrun_reason" ;;
  *429* | *[Tt]oo*[Mm]any*[Rr]equests*) echo "dlrun: the registry of the image $1 limits requests: $_dlrun_reason" ;;
  *refused* | *no\ such\ host* | *timeout* | *timed\ out* | *unreachable* | *resolve*)
    echo "dlrun: the registry of the image $1 cannot be reached from this node: $_dlrun_reason"
    ;;
  *) echo "dlrun: the image $1 cannot be pulled: $_dlrun_reason" ;;
  esac
}
