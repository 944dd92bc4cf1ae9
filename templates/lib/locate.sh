# shellcheck shell=bash disable=SC2034 # for rank.sh and bind.sh, which follow or precede it in one file
# Where a rank is: its node, and how many ranks that has, by what the launcher says.

_dlrun_locate() { # LOCAL_SIZE NODE PER_NODE: set DLRUN_LOCAL_SIZE and DLRUN_NODE_RANK by what the launcher says; _dlrun_misplaced: where the plan has it
  local size=$1 node=$2 planned=$((DLRUN_RANK / $3)) wanted
  wanted=$((DLRUN_WORLD_SIZE - planned * $3)) # ranks fill one node after the other
  wanted=$((wanted < $3 ? wanted : $3))
  if [[ $size == *[!0-9]* ]]; then _dlrun_count_on_node "$size" "$node"; fi
  export DLRUN_LOCAL_SIZE=${size:-$wanted} DLRUN_NODE_RANK=${node:-$planned}
  if ((DLRUN_LOCAL_SIZE == wanted && DLRUN_LOCAL_RANK == DLRUN_RANK % $3 && DLRUN_NODE_RANK == planned)); then return 0; fi
  if [[ -z $node ]]; then _dlrun_find_node; fi
  _dlrun_misplaced="is local rank $DLRUN_LOCAL_RANK of $DLRUN_LOCAL_SIZE on node $DLRUN_NODE_RANK, not $((DLRUN_RANK % $3)) of $wanted on node $planned"
}

_dlrun_count_on_node() { # COUNTS NODE: sets size to that node's, from a list such as 4(x2),2
  local part parts node=$2
  IFS=, read -ra parts <<<"$1"
  for part in "${parts[@]}"; do
    size=${part%%(*}
    part=${part#"$size"} part=${part//[!0-9]/}
    node=$((node - ${part:-1}))
    if ((node < 0)); then return 0; fi
  done
}

# shellcheck disable=SC2153 # of job.sh
_dlrun_find_node() { # set DLRUN_NODE_RANK to the position of this host among those of the job: only where the layout is not the plan's
  local host index=0
  while read -r host; do
    if [[ ${host%%.*} == "$DLRUN_HOST" ]]; then DLRUN_NODE_RANK=$index; fi
    index=$((index + 1))
  done <"$DLRUN_HOSTS"
}
