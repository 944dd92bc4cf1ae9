# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Find the result of an interrupted submission. Arguments: those of `attempts`, token.
# Prints the job's id; without output there is no job, and attempts up to this number will not submit one.
# Exit codes: 66 no such directory (nor job), 73 cannot write there, 75 unknown: an attempt runs, or the scheduler does not answer.
[[ $(cat .submission/complete 2>/dev/null) == "$token" ]] || exit 66
if [[ -s .submission/said ]]; then exec cat .submission/said; fi
# With the last link no other attempt can submit while the queue is searched.
attempt=1
until ln -s -- "$HOSTNAME:$$" ".submission/$attempt" 2>/dev/null; do
  [[ -L .submission/$attempt ]] || exit 73
  if alive ".submission/$attempt"; then exit 75; fi
  if [[ -s .submission/said ]]; then exec cat .submission/said; fi
  attempt=$((attempt + 1))
done
id=$(known) || exit 75
if [[ -n $id ]]; then
  record "$id"
else
  printf '%s\n' "$number" >".submission/new.$$" && mv -f -- ".submission/new.$$" .submission/given-up || exit 73
fi
