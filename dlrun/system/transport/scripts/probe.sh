# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Print the facts of a login node; nothing is changed. Arguments: clients (programs), paths (to test), place (the profile's
# `storage.jobs`, with variables of this shell; empty: none).
# Output: values, each followed by NUL; the names of exported variables come last.
shopt -s nullglob
field() { printf '%s\0' "$@"; }
first() { # KEY FILE...: the value of a line `KEY = value` in the first file that has one
  local pattern=$1 file
  shift
  for file; do
    [[ -r $file ]] && sed -n "s/^[[:space:]]*${pattern}[[:space:]]*=[[:space:]]*\([^[:space:]#]*\).*/\1/Ip" "$file" && return
  done | head -n 1
}
jobs_place() { # `place` with its variables expanded; fails if one of them is not set here
  local rest=$place made=
  if [[ -n ${DLRUN_JOBS-} || -z $rest ]]; then return 1; fi
  # shellcheck disable=SC2088 # a literal ~
  if [[ $rest == '~/'* ]]; then rest=$HOME${rest#'~'}; fi
  while [[ $rest =~ ^([^$]*)\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?(.*)$ ]]; do
    [[ -n ${!BASH_REMATCH[2]-} ]] || return 1
    made+=${BASH_REMATCH[1]}${!BASH_REMATCH[2]} rest=${BASH_REMATCH[3]}
  done
  [[ $made$rest == /* ]] && printf %s "$made$rest"
}
field "$HOME" "$(jobs_place || printf %s "${DLRUN_JOBS:-${XDG_STATE_HOME:-$HOME/.local/state}/dlrun/jobs}")" "$(hostname -f 2>/dev/null || hostname)"
field "$(first ClusterName "${SLURM_CONF:-/etc/slurm/slurm.conf}" /run/slurm/conf/slurm.conf /etc/slurm-llnl/slurm.conf)"
field "${PBS_SERVER:-${PBS_DEFAULT:-$(first PBS_SERVER "${PBS_CONF_FILE:-/etc/pbs.conf}")}}"
for client in "${clients[@]}"; do
  if type -P -- "$client" >/dev/null; then field yes; else field no; fi
done
for path in "${paths[@]}"; do
  # shellcheck disable=SC2088 # a literal ~
  if [[ $path == '~' || $path == '~/'* ]]; then path=$HOME${path#'~'}; fi
  first=${path#/}
  # A path whose first directory is missing may exist on compute nodes only.
  if [[ -e $path || ! -d /${first%%/*} ]]; then field yes; else field no; fi
done
field "$(compgen -e)"
