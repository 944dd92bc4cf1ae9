# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# Attempts to submit the job of a directory: each is a link, `.submission/1`, `.submission/2`, …, to its host and process.
# Whoever makes the next one may act; only one can. Locks would need a daemon that homes lack.
# Given: directory, number, unwanted (variables).
umask 077
cd -- "$directory" || exit 66
((${#unwanted[@]} == 0)) || unset "${unwanted[@]}"

alive() { # ATTEMPT: does the process that made it still run?
  local owner
  owner=$(readlink -- "$1") || return 1
  if [[ ${owner%:*} == "$HOSTNAME" ]]; then
    [[ $(readlink "/proc/${owner##*:}/cwd") == "$(pwd -P)" ]]
  else # on another login node: it gives up after 150 s
    [[ -n $(find "$1" -maxdepth 0 -mmin -4) ]]
  fi
}

record() { # write down what the client said, whole or not at all
  printf '%s\n' "$1" >".submission/new.$$" && mv -f -- ".submission/new.$$" .submission/said
  printf '%s\n' "$1"
}

known() { # the job's id if an earlier attempt got it through: from the job itself, else from the queue
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

given_up() { # was this submission settled as one that broke off, with all up to its number?
  local last
  last=$(cat .submission/given-up 2>/dev/null) && ((last >= number))
}
