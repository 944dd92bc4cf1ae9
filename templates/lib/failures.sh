# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Who failed first: ranks leave notes in failures/, whose times are put right where a node's clock is wrong.
# Sourced by lib/job.sh.

_dlrun_some_failed() { compgen -G "$DLRUN_RUN_DIR/failures/*" >/dev/null; }

_dlrun_failed_first() { # print when, role, rank, host, exit code and reason of what failed first; false if nothing did
  local note when rest late now off
  _dlrun_some_failed || return 1
  now=$(date +%s%N)
  for note in "$DLRUN_RUN_DIR"/failures/*; do
    when='' late=''
    { read -r when rest && read -r late; } 2>/dev/null <"$note" || true
    [[ -n $when ]] || continue # not written yet
    off=0 # how far that node's clock is ahead of this one's, where it must be wrong
    if ((${late:-0} < -2000000000)); then # it began before it was launched
      off=$late
    elif ((when > now + 2000000000)); then # it ended in the future
      off=${late:-$((when - now))}
    fi
    if ((off)); then # this node's clock counts, also for `dlrun why`
      when=$((when - off))
      printf '%s %s\n' "$when" "$rest" >"$note"
    fi
    printf '%s %s\n' "$when" "$rest"
  done | sort -n | sed -n 1p
}

_dlrun_report_first_failure() { # by time alone, with its last lines
  local first role rank host code note words line
  first=$(_dlrun_failed_first) || return 0
  read -r _ role rank host code note <<<"$first"
  dlrun_say "first failure: $role $rank on $host ended with exit code $code${note:+, $note}; by time alone, \`dlrun why ${DLRUN_JOB_DIR##*/}${DLRUN_POINT:+:$DLRUN_POINT}\` finds the cause; the end of logs/$role-$rank.log:"
  words=$(tail -c 4096 -- "$DLRUN_RUN_DIR/logs/$role-$rank.log" 2>/dev/null | tail -n 15 | tr -d '\0') || true # a line may be huge
  words=${words##*"dlrun: run $((${DLRUN_RESTART:-0} + 1))"} # what stands above is of an earlier run
  if [[ -n $words ]]; then while IFS= read -r line; do printf '  | %s\n' "$line"; done <<<"${words#$'\n'}"; fi
}
