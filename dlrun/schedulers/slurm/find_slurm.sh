# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
find_job() { # DIRECTORY...: the id of my job that was submitted there
  local queue
  queue=$(squeue --noheader --states=all --user="$(id -un)" --format='%F|%Z') || return
  while IFS='|' read -r id place; do
    for directory; do
      if [[ $place == "$directory" ]]; then
        printf '%s\n' "$id"
        return
      fi
    done
  done <<<"$queue"
}
