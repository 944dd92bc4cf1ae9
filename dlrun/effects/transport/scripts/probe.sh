# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# What dlrun must know about a login node; nothing is changed. Given: clients (programs), paths (to look for), place (where the
# site's profile has job directories, by variables of this shell; empty: nowhere).
# Printed: words that end with NUL, the names of exported variables last.
shopt -s nullglob
say() { printf '%s\0' "$@"; }
first() { # PATTERN FILE...: what follows it in the first file that has it
  local pattern=$1 file
  shift
  for file; do
    [[ -r $file ]] && sed -n "s/^[[:space:]]*${pattern}[[:space:]]*=[[:space:]]*\([^[:space:]#]*\).*/\1/Ip" "$file" && return
  done | head -n 1
}
jobs_place() { # as the profile has it, unless a variable in it is not set here
  local rest=$place made=
  if [[ -n ${DLRUN_JOBS-} || -z $rest ]]; then return 1; fi
  # shellcheck disable=SC2088 # the tilde is literal
  if [[ $rest == '~/'* ]]; then rest=$HOME${rest#'~'}; fi
  while [[ $rest =~ ^([^$]*)\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?(.*)$ ]]; do
    [[ -n ${!BASH_REMATCH[2]-} ]] || return 1
    made+=${BASH_REMATCH[1]}${!BASH_REMATCH[2]} rest=${BASH_REMATCH[3]}
  done
  [[ $made$rest == /* ]] && printf %s "$made$rest"
}
say "$HOME" "$(jobs_place || printf %s "${DLRUN_JOBS:-${XDG_STATE_HOME:-$HOME/.local/state}/dlrun/jobs}")" "$(hostname -f 2>/dev/null || hostname)"
say "$(first ClusterName "${SLURM_CONF:-/etc/slurm/slurm.conf}" /run/slurm/conf/slurm.conf /etc/slurm-llnl/slurm.conf)"
say "${PBS_SERVER:-${PBS_DEFAULT:-$(first PBS_SERVER "${PBS_CONF_FILE:-/etc/pbs.conf}")}}"
for client in "${clients[@]}"; do
  if type -P -- "$client" >/dev/null; then say yes; else say no; fi
done
for path in "${paths[@]}"; do
  # shellcheck disable=SC2088 # the tilde is literal
  if [[ $path == '~' || $path == '~/'* ]]; then path=$HOME${path#'~'}; fi
  first=${path#/}
  if [[ -e $path || ! -d /${first%%/*} ]]; then say yes; else say no; fi # it may be on compute nodes alone
done
say "$(compgen -e)"
