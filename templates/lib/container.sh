# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# In a rank: Apptainer or Singularity around the program.

dlrun_in_container() { # ARGUMENTS... IMAGE: the arguments of `exec`
  local runtime
  runtime=$(command -v apptainer || command -v singularity) || {
    echo "dlrun: rank $DLRUN_RANK: neither apptainer nor singularity is on this node's PATH"
    dlrun_fail 127
  }
  _dlrun_check_image
  _dlrun_wrap=("$runtime" exec ${_dlrun_images[@]+"${_dlrun_images[@]}"} "$@")
}

_dlrun_check_image() { # as on the first node?
  local size path found
  read -r size path <<<"${DLRUN_IMAGE-}"
  if [[ -z $path ]] || ((DLRUN_LOCAL_RANK)); then return 0; fi
  found=$(stat -Lc %s -- "$path" 2>/dev/null) || dlrun_fail 1 "environment: the image $path is not there"
  if [[ $size != - && $found != "$size" ]]; then
    dlrun_fail 1 "environment: the image $path has $found bytes, on the first node $size"
  fi
}

dlrun_show_inside() { # NAME...: an image may set variables of its own; with these prefixes ours win inside
  local name
  export DLRUN_PROCESS="$DLRUN_RUN_ID $DLRUN_ROLE $DLRUN_RANK"
  for name in "$@" "${!DLRUN_@}"; do
    if [[ -n ${!name+set} ]]; then export "APPTAINERENV_$name=${!name}" "SINGULARITYENV_$name=${!name}"; fi
  done
}
