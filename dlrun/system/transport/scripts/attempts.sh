# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Attempts to submit the job of a directory. Each is a symbolic link, `.submission/1`, `.submission/2`, …, to HOST:PID.
# Creating a link is atomic also on NFS: only the process that created the last link may submit. File locks do not work on
# all shared file systems. Arguments: directory, number, unwanted (variables to unset).
umask 077
cd -- "$directory" || exit 66
((${#unwanted[@]} == 0)) || unset "${unwanted[@]}"

alive() { # ATTEMPT: whether the process that created it still runs
  local owner
  owner=$(readlink -- "$1") || return 1
  if [[ ${owner%:*} == "$HOSTNAME" ]]; then
    [[ $(readlink "/proc/${owner##*:}/cwd") == "$(pwd -P)" ]]
  else # on another login node: `submit` ends its client after 150 s
    [[ -n $(find "$1" -maxdepth 0 -mmin -4) ]]
  fi
}

record() { # OUTPUT: store and print the client's output, atomically
  printf '%s\n' "$1" >".submission/new.$$" && mv -f -- ".submission/new.$$" .submission/said
  printf '%s\n' "$1"
}

known() { # the job's id if an earlier attempt submitted it: from the job's own files, else from the queue
  local state id
  for state in state.json points/*/state.json; do
    id=$(sed -n 's/.*"job_id": "\([^"]*\)".*/\1/p' -- "$state" 2>/dev/null)
    if [[ -n $id ]]; then
      printf '%s\n' "$id"
      return
    fi
  done
  find_job "$PWD" "$(pwd -P)"
}

given_up() { # whether `settle` found this submission interrupted, and closed all attempts up to its number
  local last
  last=$(cat .submission/given-up 2>/dev/null) && ((last >= number))
}
