# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
find_job() { # DIRECTORY...: the id of my job that was submitted there, or the ids of a sweep's points in order
  local queue ids=()
  queue=$(flux jobs -a --no-header --count=0 --format='{id.f58plain} {cwd}') || return
  while read -r id place; do
    for directory; do
      if [[ $place == "$directory" ]]; then ids=("$id" ${ids[@]+"${ids[@]}"}); fi # the newest comes first
    done
  done <<<"$queue"
  if ((${#ids[@]})); then printf '%s\n' "$(IFS=, && printf '%s' "${ids[*]}")"; fi
}
