# shellcheck shell=bash disable=SC2154,SC2034 # variables of the page's own part
# The nodes of a job that runs others: the points of a sweep (lib/pool.sh) or several programs (lib/roles.sh).

dlrun_granted_hosts() { # COMMAND...: it prints them; for the words of the next line, DLRUN_FIRST_HOST is a mark for one of them
  local hosts
  _dlrun_expect_own_directory
  read -r _dlrun_host </proc/sys/kernel/hostname
  _dlrun_host=${_dlrun_host%%.*}
  mapfile -t hosts < <("$@")
  if ((${#hosts[@]} == 0)); then dlrun_log 'the scheduler names no granted node' && exit 1; fi
  printf -v _dlrun_granted '%s,' "${hosts[@]}"
  DLRUN_FIRST_HOST='{host}'
}
