# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
find_job() { # DIRECTORY...: the id of my job that was submitted there
  local ids queue directory server where=()
  for directory; do # a queue NAME@SERVER: the default server does not know the job
    server=$(sed -n 's/^#PBS -q [^@[:space:]]*@//p' "$directory/job.sh" 2>/dev/null) || true
    if [[ -n $server ]]; then where=(-q "@$server"); fi
  done
  where+=(-u "$(id -un)")
  ids=$(qselect -x "${where[@]}" 2>/dev/null || qselect "${where[@]}") || return
  [[ -n $ids ]] || return 0
  # shellcheck disable=SC2086 # one word for each job
  queue=$(qstat -x -f $ids 2>/dev/null || qstat -f $ids) || return
  queue=${queue//$'\n\t'/} # a long value continues in the next line
  while read -r line; do
    case $line in 'Job Id: '*) id=${line#Job Id: } ;; esac
    for directory; do
      if [[ $line, == *"PBS_O_WORKDIR=$directory,"* ]]; then
        printf '%s\n' "$id"
        return
      fi
    done
  done <<<"$queue"
}
