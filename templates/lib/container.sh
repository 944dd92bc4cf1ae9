# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# In a rank: Apptainer or Singularity around the program.

dlrun_contain() { # ARGUMENTS... IMAGE: what stands after `exec`
  local runtime
  runtime=$(command -v apptainer || command -v singularity) || {
    echo "dlrun: rank $DLRUN_RANK: neither apptainer nor singularity is on this node's PATH"
    dlrun_fail 127
  }
  _dlrun_wrap=("$runtime" exec "$@")
}

dlrun_show_inside() { # NAME...: an image may set variables of its own; with these prefixes ours win inside
  local name
  export DLRUN_PROCESS="$DLRUN_RUN_ID $DLRUN_ROLE $DLRUN_RANK"
  for name in "$@" "${!DLRUN_@}"; do
    if [[ -n ${!name+set} ]]; then export "APPTAINERENV_$name=${!name}" "SINGULARITYENV_$name=${!name}"; fi
  done
}
