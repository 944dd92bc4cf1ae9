# shellcheck shell=bash disable=SC2154 # variables of lib/job.sh
# Module files, activation scripts and set-up lines run in the shell of job.sh: afterwards dlrun_own_shell restores its state.
# Sourced by lib/job.sh. Exports of those lines reach the ranks, except functions that have the names of commands used here.

_dlrun_builtins='. : [ break builtin cd command compgen continue declare disown echo enable eval exec exit export false hash
  jobs kill let local mapfile printf pwd read readarray readonly return set shift shopt source test times trap true type
  typeset ulimit umask unset wait'
_dlrun_programs='awk base64 bash cat cp date env find flux getent grep head id ip ls mkdir mkfifo mktemp mv numactl prlimit python3 qstat
  qsub readlink rm rmdir scancel scontrol sed sha256sum sleep sort squeue srun ssh stat tail taskset tee timeout touch tr wc'
_dlrun_locals='alive all ask bad base beat begun below cause code commit copy count daemon deadline dirty earlier ended entry
  exit_code failed file first found from granted host hosts how i id image index job laid last late left letter letters line
  links list listed locks log longest lost made margin marks more most name names new node nodes note noted now number off old
  older option options own owner page parent part parts path pid pids place places port rank ranks reason record rest role root
  rows running said seed seen settled size sockets some span stacks started starts stat status step still store table text there
  tick to tree tries try unchanged until up version waited wall what when where words work'

_dlrun_owned='DLRUN_JOB_DIR DLRUN_JOB_ID DLRUN_POINT DLRUN_PLACE DLRUN_RESTART DLRUN_NODES DLRUN_RUN_DIR DLRUN_RUN_ID DLRUN_HOSTS
  DLRUN_FIRST_HOST DLRUN_USER'
declare -A _dlrun_original=() # their values before the set-up lines

_dlrun_keep_names() {
  local name
  for name in $_dlrun_owned; do
    if [[ -n ${!name+set} ]]; then _dlrun_original[$name]=${!name}; fi
  done
}

_dlrun_own_names() { # names of commands are those of commands again: other functions, such as `module`, stay
  POSIXLY_CORRECT=1 # `unset` is bash's own then, whatever functions there are
  \unset -f unset || :
  \unset -v POSIXLY_CORRECT FUNCNEST GLOBIGNORE EXECIGNORE TMOUT BASH_XTRACEFD BASH_COMPAT
  IFS=$' \t\n'
  # shellcheck disable=SC2086 # words
  \unset -f $_dlrun_builtins $_dlrun_programs || :
  # shellcheck disable=SC2086 # words
  builtin enable $_dlrun_builtins
  set -h # without it `hash` fails
  hash -r
  umask u+rwx # a job without access to its own files cannot run
}

dlrun_own_shell() { # after the environment is set up: names, options, traps and word splitting are the library's again
  FUNCNEST=0 # otherwise no function may call another; an assignment, for a function could stand in for a command
  _dlrun_own_names
  set +afkmCET
  shopt -u dotglob expand_aliases extdebug failglob nocaseglob nocasematch nullglob xpg_echo
  set -euo pipefail
  _dlrun_check_readonly
  _dlrun_arm
  _dlrun_reopen
  _dlrun_restore_names
  _dlrun_expect_tools
  mapfile -t -O "${#_dlrun_beside[@]}" _dlrun_beside < <(jobs -p) # servers that set-up lines have started: they end with the job
}

_dlrun_reopen() { # what ranks and logs are written to would else be the next file that is opened
  { { :; } 9>&1; } 2>/dev/null || exec >/dev/null
  { :; } 9>&2 || exec 2>/dev/null
}

_dlrun_restore_names() { # restore dlrun's own variables, such as the job's directory, if a set-up line has changed them
  local name
  for name in "${!_dlrun_original[@]}"; do
    if [[ ${!name-} == "${_dlrun_original[$name]}" ]]; then continue; fi
    dlrun_log "a set-up line has changed $name, which is dlrun's: it is ${_dlrun_original[$name]} again"
    export "$name=${_dlrun_original[$name]}"
  done
}

_dlrun_expect_tools() {
  local name
  for name in mkdir mv rm sleep grep date; do
    if type -P "$name" >/dev/null; then continue; fi
    dlrun_log "after the set-up lines PATH has no $name: they must add to PATH, not replace it; it is '${PATH-}'"
    exit 1
  done
}

_dlrun_find_program() { # VARIABLE NAME: set it to the program's path, most often without a process; empty if there is none
  local place=''
  if hash "$2" 2>/dev/null; then place=${BASH_CMDS[$2]-}; fi
  if [[ -z $place ]]; then place=$(type -P "$2") || true; fi # a function has the name
  printf -v "$1" %s "$place"
}

_dlrun_check_readonly() { # a function of the library cannot have a local variable with the name of a read-only one
  local _dlrun_name
  for _dlrun_name in $_dlrun_locals; do
    # shellcheck disable=SC2229,SC2163 # the name is in the variable
    if ! local "$_dlrun_name" 2>/dev/null; then
      echo "dlrun: a set-up line has made the variable '$_dlrun_name' read-only, and lib/*.sh uses that name: take another"
      exit 1
    fi
  done
}
