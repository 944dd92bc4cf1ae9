# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Submit a job exactly once, however often this script runs. Arguments: those of `attempts`, token, client (words).
# Prints the client's output. Exit codes: 65 refused (and the directory removed), 66 no such directory, 73 cannot write
# there, 75 unknown whether an attempt succeeded.
if [[ -s .submission/said ]]; then exec cat .submission/said; fi
# The job must not inherit the ssh session: bash would read ~/.bashrc in it, and the agent's socket ends with this connection.
unset SSH_CLIENT SSH2_CLIENT SSH_CONNECTION SSH_TTY SSH_AUTH_SOCK

attempt=1 waited=0
until ln -s -- "$HOSTNAME:$$" ".submission/$attempt" 2>/dev/null; do
  [[ -L .submission/$attempt ]] || exit 73
  if alive ".submission/$attempt"; then
    ((++waited < 520)) || exit 75 # 260 s: longer than a client may run
    sleep 0.5
  elif [[ ! -s .submission/said ]]; then # an attempt that succeeds stores the output before it ends
    attempt=$((attempt + 1))
    continue
  fi
  if [[ -s .submission/said ]]; then exec cat .submission/said; fi
done
if given_up; then
  echo "another dlrun found this submission interrupted" >&2
  exit 75
fi
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
# The job may exist although its client failed: a busy controller accepts it and answers too late.
id=$(known 2>/dev/null) || exit 75
if [[ -n $id ]]; then
  record "$id"
  exit 0
fi
[[ -z $said ]] || printf '%s\n' "$said" >&2
((status != 124)) || exit 75 # ended by timeout(1): the client had no answer
if [[ $(cat .submission/complete) == "$token" ]]; then # only the directory that this submission sent
  cd / && rm -rf -- "$directory"
fi
exit 65
