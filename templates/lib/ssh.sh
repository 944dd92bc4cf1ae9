# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Ranks started by ssh, for sites whose scheduler starts nothing on the other nodes.

dlrun_ssh() { # HOSTS PER_NODE COUNT WORDS SSH... COMMAND...: ranks on every host of a file, by an ssh command of so many words
  _dlrun_hosts=$1 _dlrun_per_node=$2 _dlrun_count=$3 _dlrun_rank=0 _dlrun_node=0
  _dlrun_ranks=() _dlrun_lines=() _dlrun_ssh=("${@:5:$4}")
  shift $((4 + $4))
  if [[ ${_dlrun_ssh[0]##*/} == ssh ]]; then # a node that dies, or is dead, ends its ssh
    _dlrun_ssh+=(-o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=3)
  fi
  trap - EXIT
  trap '' PIPE # a broken connection shows when its ssh ends
  trap '_dlrun_end_ssh_ranks; exit 143' TERM
  if [[ -n ${_dlrun_carrier-} ]]; then trap '_dlrun_signalled=1; _dlrun_signal_hosts' "$_dlrun_carrier"; fi
  _dlrun_pipe=$(mktemp -d)/line
  while read -r _dlrun_to <&3; do
    _dlrun_size=$((_dlrun_count - _dlrun_rank < _dlrun_per_node ? _dlrun_count - _dlrun_rank : _dlrun_per_node))
    for ((_dlrun_local = 0; _dlrun_local < _dlrun_per_node && _dlrun_rank < _dlrun_count; _dlrun_local++, _dlrun_rank++)); do
      mkfifo -m 600 "$_dlrun_pipe"
      (
        if [[ -n ${_dlrun_outlasts-} ]]; then trap '' TERM; fi
        for _dlrun_line in ${_dlrun_lines[@]+"${_dlrun_lines[@]}"}; do exec {_dlrun_line}>&-; done
        if [[ $(type -t "${_dlrun_ssh[0]}") != function ]]; then exec "${_dlrun_ssh[@]}" "$_dlrun_to" bash -s <"$_dlrun_pipe"; fi
        "${_dlrun_ssh[@]}" "$_dlrun_to" bash -s <"$_dlrun_pipe"
      ) &
      _dlrun_ranks+=("$!")
      exec {_dlrun_line}>"$_dlrun_pipe"
      _dlrun_lines+=("$_dlrun_line")
      rm -f "$_dlrun_pipe"
      DLRUN_RANK=$_dlrun_rank DLRUN_LOCAL_RANK=$_dlrun_local DLRUN_LOCAL_SIZE=$_dlrun_size DLRUN_NODE_RANK=$_dlrun_node _dlrun_on_host "$@" >&"$_dlrun_line"
    done
    _dlrun_node=$((_dlrun_node + 1))
  done 3<"$_dlrun_hosts"
  rmdir "${_dlrun_pipe%/*}"
  _dlrun_wait_for_ranks _dlrun_end_ssh_ranks
}

_dlrun_on_host() { # COMMAND...: what the shell on a host reads, so that nothing is in a process list
  export DLRUN_RANK DLRUN_LOCAL_RANK DLRUN_LOCAL_SIZE DLRUN_NODE_RANK
  printf '{\n'
  dlrun_exported
  printf 'cd -- %q || exit\n' "$PWD"
  printf '%q ' "$@"
  # What follows on its standard input are signals; its end means that the job, or the connection, is gone.
  # shellcheck disable=SC2016 # code for the other shell
  printf '%s\n' '</dev/null &' '_dlrun_rank=$!' 'exec 3<&0' \
    '{ while :; do' \
    '  read -t 60 -r _dlrun_signal; _dlrun_status=$?' \
    '  if ((_dlrun_status == 0)); then kill -s "$_dlrun_signal" "$_dlrun_rank"; continue; fi' \
    '  if ((_dlrun_status <= 128)); then break; fi' \
    '  grep -qs "\"state\": \"running\".*\"restarts\": $DLRUN_RESTART[,}]" "$DLRUN_RUN_DIR/state.json"' \
    '  (($? != 1)) || break # the job is over, and a connection that is cut off does not tell' \
    'done; kill "$_dlrun_rank"; } <&3 2>/dev/null &' \
    'wait "$_dlrun_rank"; _dlrun_status=$?; kill "$!" 2>/dev/null' \
    'if ((_dlrun_status == 137)); then # its shell was killed, and has left what it had started' \
    '  for ((_dlrun_none = 0, _dlrun_looks = 0; _dlrun_none < 2 && _dlrun_looks < 100; _dlrun_none++, _dlrun_looks++)); do' \
    '    for _dlrun_found in $(grep -lsz "^DLRUN_PROCESS=$DLRUN_RUN_ID [^ ]* $DLRUN_RANK\$" /proc/[0-9]*/environ); do' \
    '      grep -qszxF "DLRUN_RUN_DIR=$DLRUN_RUN_DIR" "$_dlrun_found" || continue # another cluster may count as this one does' \
    '      _dlrun_none=-1 # a process during its exec shows no environment: look until two looks find nothing' \
    '      _dlrun_found=${_dlrun_found#/proc/}; kill -KILL "${_dlrun_found%/environ}" 2>/dev/null' \
    '    done' '    sleep 0.01' \
    '  done' 'fi' 'exit "$_dlrun_status"' '}'
}

_dlrun_signal_hosts() {
  for _dlrun_line in ${_dlrun_lines[@]+"${_dlrun_lines[@]}"}; do
    { echo "$_dlrun_carrier" >&"$_dlrun_line"; } 2>/dev/null
  done
}

_dlrun_end_ssh_ranks() { # each rank is asked to end, and its ssh ends with it; what does not is taken down
  local line waited alive pid
  for line in ${_dlrun_lines[@]+"${_dlrun_lines[@]}"}; do exec {line}>&-; done
  _dlrun_lines=()
  for ((waited = 0; waited < _dlrun_grace * 10; waited++)); do
    alive=0
    for pid in ${_dlrun_ranks[@]+"${_dlrun_ranks[@]}"}; do
      if kill -0 "$pid" 2>/dev/null; then alive=1; fi
    done
    ((alive)) || return 0
    sleep 0.1
  done
  _dlrun_terminate "${_dlrun_ranks[@]}"
}
