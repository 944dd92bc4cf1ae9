# shellcheck shell=bash
find_job() { # DIRECTORY...: the id of my job that was submitted there
  local jobs directory
  jobs=$(bjobs -a -noheader -o "jobid sub_cwd delimiter='^'" 2>&1) || [[ $jobs == *'job found'* ]] || return
  while IFS='^' read -r id place; do
    place=${place/#'$HOME'/$HOME}
    for directory; do
      if [[ $place == "$directory" ]]; then
        printf '%s\n' "$id"
        return
      fi
    done
  done <<<"$jobs"
}
