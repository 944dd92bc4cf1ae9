# shellcheck shell=bash disable=SC2154 # variables of lib/job.sh
# In job.sh: the image of the container, pulled and converted before data is staged and the ranks start.

dlrun_pull_image() { # COMMAND...: run image.sh on the first node, by a step on each node (COMMAND) if that is another host
  local step=()
  if [[ $_dlrun_host != "${DLRUN_FIRST_HOST%%.*}" ]]; then step=("$@"); fi
  rm -f -- "$DLRUN_RUN_DIR/image" # of an earlier start
  if ((${#step[@]})); then
    "${step[@]}" bash -p "$DLRUN_JOB_DIR/image.sh" step </dev/null &
  else
    bash -p "$DLRUN_JOB_DIR/image.sh" </dev/null &
  fi
  _dlrun_steps=("$!")
  wait "$!" || exit 1 # it has given the reason
  _dlrun_steps=()
  read -r DLRUN_IMAGE_FILE <"$DLRUN_RUN_DIR/image"
  DLRUN_IMAGE_KEY=${DLRUN_IMAGE_FILE%/*}
  DLRUN_IMAGE_KEY=${DLRUN_IMAGE_KEY##*/}
  DLRUN_IMAGE_KEY=${DLRUN_IMAGE_KEY:0:12} # of its digest
  export DLRUN_IMAGE_FILE DLRUN_IMAGE_KEY
}
