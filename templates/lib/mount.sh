# shellcheck shell=bash disable=SC2154 # variables of the page and of python.sh
# In a rank: data sets that are one SquashFS image, and that this job's ranks see as a directory. The first rank of a node to come mounts
# one, in no process of the job, since the others may outlive it; `clean` of the node program unmounts it at the end, or for the next job.

_dlrun_images=() # options of Apptainer, for images that the node itself cannot mount

dlrun_mount() { # NAME [OPTION]; the reason why it cannot be is in the rank's log
  dlrun_python "$DLRUN_JOB_DIR/node.pyz" mount --to "$DLRUN_STAGE" --name "$1" --job "${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-}" "${@:2}" || dlrun_fail 1
}

dlrun_mount_or_bind() { # VARIABLE NAME: the same for a container, which sees mounts of the node; where there can be none, Apptainer mounts it
  local image
  if { type -P squashfuse_ll || type -P squashfuse; } >/dev/null && { type -P fusermount3 || type -P fusermount; } >/dev/null; then
    dlrun_mount "$2" >/dev/null
    return 0
  fi
  image=$(dlrun_mount "$2" --find) || exit 1
  _dlrun_images+=(--bind "$image:/dlrun/$2:image-src=/") # not below another bind, which may come later and hide it
  export "$1=/dlrun/$2"
}
