# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# What became of a submission whose dlrun has ended. Given: `attempts`, token.
# Prints the job's id; if it prints nothing, there is no job, and submissions up to this number make none any more.
# Exit codes: 66 no such directory (likewise), 73 cannot write there, 75 unknown: an attempt goes on, or the scheduler does not answer.
[[ $(cat .submission/complete 2>/dev/null) == "$token" ]] || exit 66
if [[ -s .submission/said ]]; then exec cat .submission/said; fi
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
