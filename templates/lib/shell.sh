# shellcheck shell=bash disable=SC2154 # variables of lib/job.sh
# job.sh shares its shell with module files, activation scripts and set-up lines: dlrun_own_shell makes it the library's again.
# Sourced by lib/job.sh. What those lines export reaches the ranks, but for functions with the names of commands used here.

_dlrun_builtins='. : [ break builtin cd command compgen continue declare disown echo enable eval exec exit export false hash
  jobs kill let local mapfile printf pwd read readarray readonly return set shift shopt source test times trap true type
  typeset ulimit umask unset wait'
_dlrun_programs='awk base64 bash cat date env find getent grep head id ip mkdir mkfifo mktemp mv numactl prlimit python3 qstat
  qsub readlink rm rmdir scontrol sed sleep sort srun ssh stat tail taskset timeout touch tr wc'
_dlrun_locals='after alive all at_once bad base cause code count daemon deadline earlier ended exit_code file first found
  granted host how i id ids index last late left letter letters line list listed locks log lost made margin marks
  more name node note noted now off old owner part pid pids place places points port rank reason rest role row
  rows running said script seed seen size some span stacks started starts stat status step still table text there
  tick tree tries try until waited what when where words'

dlrun_own_shell() { # after the environment is set up: names, options, traps and word splitting are the library's again
  POSIXLY_CORRECT=1 # `unset` is bash's own then, whatever functions there are
  \unset -f unset || :
  \unset -v POSIXLY_CORRECT FUNCNEST GLOBIGNORE EXECIGNORE TMOUT BASH_XTRACEFD BASH_COMPAT
  IFS=$' \t\n'
  # shellcheck disable=SC2086 # words
  \unset -f $_dlrun_builtins $_dlrun_programs || :
  set +afkmCET
  shopt -u dotglob expand_aliases extdebug failglob nocaseglob nocasematch nullglob xpg_echo
  set -euo pipefail
  _dlrun_check_readonly
  _dlrun_arm
}

_dlrun_check_readonly() { # a variable that is read-only cannot be a local one of the library's functions
  local _dlrun_name
  for _dlrun_name in $_dlrun_locals; do
    # shellcheck disable=SC2229,SC2163 # the name is in the variable
    if ! local "$_dlrun_name" 2>/dev/null; then
      echo "dlrun: a set-up line has made the variable '$_dlrun_name' read-only, and lib/*.sh uses that name: take another"
      exit 1
    fi
  done
}
