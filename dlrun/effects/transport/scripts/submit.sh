# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# Submit a job once, however often this is asked. Given: directory, token, client (words), unwanted (variables).
# Prints what the client printed. Exit codes: 65 refused (and the directory removed), 66 no such directory,
# 73 cannot write there, 75 nobody can tell whether an earlier attempt succeeded.
umask 077
cd -- "$directory" || exit 66
if [[ -s .submission/said ]]; then exec cat .submission/said; fi
# A job is no ssh session: bash would read ~/.bashrc in it, and the agent's socket ends with this connection.
unset SSH_CLIENT SSH2_CLIENT SSH_CONNECTION SSH_TTY SSH_AUTH_SOCK
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

# Whoever makes the next attempt's link may submit; only one can. Locks would need a daemon that homes lack.
attempt=1 waited=0
until ln -s -- "$HOSTNAME:$$" ".submission/$attempt" 2>/dev/null; do
  [[ -L .submission/$attempt ]] || exit 73
  if alive ".submission/$attempt"; then
    ((++waited < 520)) || exit 75
    sleep 0.5
  elif [[ ! -s .submission/said ]]; then # whoever ends well has written it before
    attempt=$((attempt + 1))
    continue
  fi
  if [[ -s .submission/said ]]; then exec cat .submission/said; fi
done
if ((attempt > 1)); then
  id=$(known) || exit 75
  if [[ -n $id ]]; then
    record "$id"
    exit 0
  fi
fi

said=$(timeout 150 "${client[@]}")
status=$?
if ((status == 0)); then
  record "$said"
  exit 0
fi
# A controller that is too busy to answer may have taken the job all the same.
id=$(known 2>/dev/null) || exit 75
if [[ -n $id ]]; then
  record "$id"
  exit 0
fi
[[ -z $said ]] || printf '%s\n' "$said" >&2
((status != 124)) || exit 75 # it got no answer at all
if [[ $(cat .submission/complete) == "$token" ]]; then # it is the directory that was sent
  cd / && rm -rf -- "$directory"
fi
exit 65
