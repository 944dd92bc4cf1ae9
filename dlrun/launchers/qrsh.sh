# shellcheck shell=bash
# Ranks as tasks of a Grid Engine job: `qrsh -inherit` in the place of ssh (lib/ssh.sh).

_dlrun_expect_pipes() { # in a job of `qrsh -pty y` tasks have terminals, too: they would show what they read, the environment
  if grep -qsx pty=1 "${SGE_JOB_SPOOL_DIR-}/config"; then
    _dlrun_give_up "this job was started with \`-pty y\`, so \`qrsh -inherit\` gives a terminal to each rank, which shows the environment: leave out \`-pty\`"
  fi
}
_dlrun_on_event start _dlrun_expect_pipes

dlrun_qrsh() { # QRSH OPTION... HOST COMMAND...: run it on a host of this job; 255 if the host died, where qrsh itself exits with 0
  local said code=0
  said=$(mktemp)
  trap 'kill "$!" 2>/dev/null' TERM
  "$1" -inherit "${@:2}" 2> >(tee "$said" >&2) <&0 &
  wait "$!" || code=$?
  if ((code == 0)) && grep -qs 'commlib error\|got no connection\|connection refused' "$said"; then code=255; fi
  rm -f "$said"
  return "$code"
}
