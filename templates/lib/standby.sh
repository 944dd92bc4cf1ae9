# shellcheck shell=bash disable=SC2154 # variables of the rank
# A node's standby: it does this node's part of the end by itself when what should do it is gone, be that the scheduler's daemon, the
# launcher's, or the first node. It has a session of its own, and so outlives them; it holds nothing of theirs open.
#
# The first rank of each node starts one, which ends processes (`bash lib/standby.sh PID PARENT NOTE LATE`). Where data or results are on
# the nodes, stage.sh has one more, with these functions. Needs bash 4.2, coreutils and grep.

_dlrun_leaving= # set when this process was asked to end

_dlrun_detach() { # no signal ends this process, and its end is nothing that others wait for
  local file
  trap '' HUP INT USR1 USR2
  for file in "/proc/$BASHPID"/fd/*; do
    file=${file##*/}
    if [[ $file != *[!0-9]* ]] && ((file > 2 && file != 255)); then eval "exec $file>&-"; fi # 255: bash's own
  done
}

_dlrun_await_gone() { # PID PARENT: until that process has ended, has another parent, or this one was asked to end
  local quiet stat status
  exec {quiet}<> <(:) # nothing comes from there: a pause without a process
  while [[ -z $_dlrun_leaving ]] && { read -r stat <"/proc/$1/stat"; } 2>/dev/null && [[ ${stat##*) } == [!ZX]" $2 "* ]]; do
    status=0
    read -r -t 1 -u "$quiet" 2>/dev/null || status=$?
    if ((status <= 128)); then sleep 1; fi
  done
}

_dlrun_find_ranks() { # [ROLE RANK]: set _dlrun_found to what the ranks of this node, or that one, have started, and _dlrun_shells to their rank.sh
  local file first mark same=F job=${SLURM_JOB_ID:+SLURM_JOB_ID=$SLURM_JOB_ID}
  job=${job:-${PBS_JOBID:+PBS_JOBID=$PBS_JOBID}}
  job=${job:-${FLUX_ENCLOSING_ID:+FLUX_ENCLOSING_ID=$FLUX_ENCLOSING_ID}} # the program may have submitted another
  if (($#)); then same=xF; fi
  _dlrun_shells=()
  mapfile -t _dlrun_found < <(grep -lsz"$same" -e "DLRUN_PROCESS=$DLRUN_RUN_ID $*" /proc/[0-9]*/environ)
  if (($# == 0)); then mapfile -t _dlrun_shells < <(grep -lszxF -e "$DLRUN_JOB_DIR/rank.sh" /proc/[0-9]*/cmdline); fi
  _dlrun_shells=(${_dlrun_shells[@]+"${_dlrun_shells[@]/%cmdline/environ}"})
  for mark in "DLRUN_RUN_ID=$DLRUN_RUN_ID" "DLRUN_RUN_DIR=$DLRUN_RUN_DIR" ${job:+"$job"}; do # another cluster may count as this one does
    mapfile -t _dlrun_found < <(grep -lszxF -e "$mark" ${_dlrun_found[@]+"${_dlrun_found[@]}"} /dev/null)
    mapfile -t _dlrun_shells < <(grep -lszxF -e "$mark" ${_dlrun_shells[@]+"${_dlrun_shells[@]}"} /dev/null)
  done
  _dlrun_found=(${_dlrun_found[@]+"${_dlrun_found[@]//[!0-9]/}"})
  for file in ${_dlrun_shells[@]+"${_dlrun_shells[@]}"}; do
    { read -r -d '' first <"${file%environ}cmdline"; } 2>/dev/null || continue
    if [[ ${first##*/} == *bash ]]; then _dlrun_found+=("${file//[!0-9]/}"); fi # not the launcher, whose arguments they are
  done
}

_dlrun_read_tenths() { # sets _dlrun_tenths: since this node's boot, by a clock that cannot be set; pauses are longer on a busy node
  local up
  read -r up _ </proc/uptime
  _dlrun_tenths=$((10#${up/./} / 10))
}

_dlrun_ranks_gone() { # TENTHS: wait until the ranks on this node have ended, at most so many tenths of a second; false if some have not
  local until none=''
  _dlrun_read_tenths
  until=$((_dlrun_tenths + $1))
  while :; do
    _dlrun_find_ranks
    if ((${#_dlrun_found[@]})); then
      none=
      _dlrun_read_tenths
      ((_dlrun_tenths < until)) || return 1
    else
      [[ -z $none ]] || return 0
      none=1 # a process during its exec shows no environment: look once more
    fi
    sleep 0.1
  done
}

_dlrun_end_ranks() { # TENTHS [ROLE RANK]: SIGTERM to all processes of the ranks on this node, or of that one; after so many tenths SIGKILL
  local begun asked=0 kills=0 none='' most=$1
  shift
  _dlrun_read_tenths
  begun=$_dlrun_tenths
  while ((kills < 50)); do
    _dlrun_find_ranks "$@"
    _dlrun_read_tenths
    if ((${#_dlrun_found[@]} == 0)); then
      [[ -z $none ]] || return 0
      none=1 # a process during its exec shows no environment: look once more
    elif ((_dlrun_tenths - begun >= most)); then
      kill -KILL "${_dlrun_found[@]}" 2>/dev/null
      kills=$((kills + 1))
    elif ((asked <= 2 * (_dlrun_tenths - begun) / most)); then # at once, and after half of the time
      kill -TERM "${_dlrun_found[@]}" 2>/dev/null
      asked=$((asked + 1))
    fi
    sleep 0.1
  done
}

_dlrun_find_broker() { # sets place: the directory of this job's broker; false without one
  place=${FLUX_URI-}
  place=${place#local://} place=${place%/*}
  [[ $place == */flux-?????? ]]
}

_dlrun_mark_broker() { # SHELL: where a broker of Flux has started that process, note in the broker's directory which one it is
  local place='' stat=''
  if ! _dlrun_find_broker || [[ ! -O $place || -L $place ]]; then return 0; fi
  { read -r stat <"/proc/$1/stat" && stat=${stat##*) ? } && read -r stat <"/proc/${stat%% *}/stat"; } 2>/dev/null || return 0
  if [[ $stat == *' (flux-broker'* ]]; then echo "$(readlink /proc/self/ns/pid) $stat" >"$place/.dlrun"; fi
}

_dlrun_remove_brokers() { # the directories with such a note, beside that of this job's broker, whose broker was killed: no other end leaves them
  local place='' note names='' stat=''
  _dlrun_find_broker || return 0
  for note in "${place%/*}"/flux-??????/.dlrun; do
    place=${note%/*}
    if [[ -O $place && ! -L $place && -O $note ]] && { read -r names stat <"$note"; } 2>/dev/null &&
      [[ -n $stat && $names == "$(readlink /proc/self/ns/pid)" ]] && ! _dlrun_is_same "${stat%% *}" "$stat"; then # of processes that are seen here
      rm -rf -- "$place"
    fi
  done
}

_dlrun_stand_by_ranks() { # PID PARENT NOTE LATE: of rank.sh, which kills this process when it ends by itself; NOTE: `note` if the loss of PARENT is one of the node
  local shell='' above='' killed='' seconds
  trap '' TERM
  _dlrun_detach
  { read -r shell <"/proc/$1/stat" && read -r above <"/proc/$2/stat"; } 2>/dev/null
  _dlrun_mark_broker "$2"
  _dlrun_remove_brokers
  _dlrun_await_gone "$1" "$2"
  _dlrun_remove_brokers
  _dlrun_is_same "$1" "$shell" || killed=1
  if [[ -n $killed ]] && _dlrun_is_same "$2" "$above"; then # the launcher ends the others: what they have left, others do not see
    _dlrun_end_ranks 10 "$DLRUN_ROLE" "$DLRUN_RANK"
    for ((seconds = 1; ; seconds++)); do
      sleep 1
      _dlrun_is_same "$2" "$above" || break
      if (((seconds & (seconds - 1)) == 0)) && _dlrun_ranks_gone 1; then return 0; fi
    done
  fi
  if [[ $3 == note && -z $killed ]]; then # Slurm notices only after minutes that its daemon has died
    printf '%s %s %s %s 1 node failed: slurmstepd on %s, which had started rank %s, is gone\n%s' "$(date +%s%N)" \
      "$DLRUN_ROLE" "$DLRUN_RANK" "$DLRUN_HOST" "$DLRUN_HOST" "$DLRUN_RANK" "${4-}" >"$DLRUN_RUN_DIR/failures/$DLRUN_ROLE-$DLRUN_RANK"
  fi
  if [[ -z $killed ]]; then kill -TERM "$1"; fi
  _dlrun_end_ranks $((6 * ${DLRUN_GRACE:-10}))
  _dlrun_remove_brokers
}

_dlrun_is_same() { # PID STAT: does the process run that had this line in /proc?
  local stat='' was
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  read -ra stat <<<"${stat##*) }"
  read -ra was <<<"${2##*) }"
  [[ ${stat[19]} == "${was[19]-}" && ${stat[0]} != Z ]]
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then _dlrun_stand_by_ranks "$@"; fi
