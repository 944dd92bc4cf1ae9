# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Addresses of nodes, as frameworks want them. Sourced by job.sh and rank.sh where they use it.
# DLRUN_SUFFIX is what the name of a host needs after it to mean its address on the fabric.

dlrun_address_of() { # INTERFACE: print its first IPv4 address
  ip -4 -o addr show dev "$1" | awk '{sub("/.*", "", $4); print $4; exit}'
}

dlrun_numeric() { # ADDRESS: print it as numbers (IPv4); several hosts are never handed the loopback address
  local found=$1
  if [[ $found == *[!0-9.]* ]]; then found=$(getent ahostsv4 "$found" | awk '{print $1; exit}'); fi
  if ((DLRUN_NODES > 1)) && [[ -z $found || $found == 127.* ]]; then
    found=$(ip -4 -o addr show scope global | awk '{sub("/.*", "", $4); print $4; exit}')
  fi
  printf '%s' "$found"
}

dlrun_endpoints() { # OFFSET PER_NODE COUNT [QUOTE]: print HOST:PORT of every process in order of rank, commas between
  local host index rank=0 list=
  while read -r host; do
    host+=${DLRUN_SUFFIX-}
    if ((DLRUN_NODES == 1)); then host=$DLRUN_MASTER_ADDR; fi
    for ((index = 0; index < $2 && rank < $3; index++, rank++)); do
      list+=,${4-}$host:$((DLRUN_MASTER_PORT + $1 + index))${4-}
    done
  done <"$DLRUN_HOSTS"
  printf '%s' "${list#,}"
}

dlrun_hostfile() { # PER_NODE COUNT: make a file of all hosts with their ranks, and print its name
  local host left=$2 file=$DLRUN_RUN_DIR/hostfile-$DLRUN_ROLE-$DLRUN_RANK
  while read -r host && ((left > 0)); do
    printf '%s slots=%s\n' "$host" "$((left < $1 ? left : $1))"
    left=$((left - $1))
  done <"$DLRUN_HOSTS" >"$file"
  printf '%s' "$file"
}
