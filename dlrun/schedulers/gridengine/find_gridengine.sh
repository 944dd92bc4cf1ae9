# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
find_job() { # DIRECTORY...: the id of my job that was submitted there
  local ids id place
  ids=$(qstat -u "$(id -un)" | awk '$1 ~ /^[0-9]+$/ {print $1}' | sort -un) || return
  for id in $ids; do
    place=$(qstat -j "$id" 2>/dev/null | awk '$1 == "sge_o_workdir:" {sub(/^[^:]*: */, ""); print}')
    for directory; do
      if [[ $place == "$directory" ]]; then
        printf '%s\n' "$id"
        return
      fi
    done
  done
}
