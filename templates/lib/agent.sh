# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# In a rank: agents that start ranks on other hosts themselves, and the ranks that they start.

dlrun_without_environment() { # PROGRAM...: run an agent that would put its environment on ssh's command lines: ranks read theirs from a file
  local name
  for name in $(compgen -e); do
    case $name in
    PATH | HOME | USER | LOGNAME | LANG | TMPDIR | LD_LIBRARY_PATH | PYTHONPATH | DLRUN_* | HOROVOD_*) ;;
    *) unset -v "$name" ;;
    esac
  done
  exec "$@"
}

dlrun_follow_agent() { # end this rank when the agent ends: ssh does not report that to the ranks
  # shellcheck source=processes.sh
  declare -F _dlrun_stat >/dev/null || source "$DLRUN_JOB_DIR/lib/processes.sh"
  _dlrun_above=$(_dlrun_ancestors) # now: the agent may end while this rank is set up
  _dlrun_watch+=' _dlrun_watch_agent'
  _dlrun_late= # the launch time of the agent is unknown
}

_dlrun_ancestors() { # print the processes above this script: they change when the agent, or its connection, is gone
  local pid=$$ name
  while ((pid > 1)) && _dlrun_stat "$pid"; do
    pid=${_dlrun_fields[1]}
    printf ' %s' "$pid"
    # What is above a connection may end without it: a service that is restarted.
    if { read -r name <"/proc/$pid/comm"; } 2>/dev/null && [[ $name == sshd* ]]; then return 0; fi
  done
}

_dlrun_watch_agent() {
  while sleep 1 && kill -0 "$$" 2>/dev/null; do
    if [[ $(_dlrun_ancestors) != "$_dlrun_above" ]]; then
      echo "dlrun: what had started rank $DLRUN_RANK is gone"
      kill -TERM "$$"
      return 0
    fi
  done
}
