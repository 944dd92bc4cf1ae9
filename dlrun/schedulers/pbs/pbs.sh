# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# What PBS does not do for a job: count its starts, and have its clients on PATH.

dlrun_client() { # COMMAND...: one of PBS's clients, which are not on a job's PATH
  (
    # shellcheck source=/dev/null
    if [[ -r /etc/pbs.conf ]]; then . /etc/pbs.conf; fi # has their path
    PATH=${PBS_EXEC:-/opt/pbs}/bin:$PATH
    "$@"
  )
}

dlrun_pbs_restarts() { # ATTRIBUTE: print how often the job was started before; PBS reports that only through qstat
  dlrun_client qstat -f "$PBS_JOBID" 2>/dev/null | awk -v attribute="$1" '$1 == attribute && $3 > 1 {n = $3 - 1} END {print n + 0}'
}
