# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Free ports for the rendezvous, reserved on this node against other jobs of the same user.

_dlrun_ports=() # locks that are held
_dlrun_on_event gone _dlrun_release_ports

dlrun_take_ports() { # FIRST LAST COUNT: sets DLRUN_MASTER_PORT to the first of COUNT free ports in a row
  local first=$1 last=$2 count=$3 span seed=0 letter try port i locks sockets
  [[ -n ${DLRUN_MASTER_ADDR-} ]] || { dlrun_log "$_dlrun_host has no such address" && exit 1; }
  span=$(((last - first + 1) / count))
  for ((i = 0; i < ${#DLRUN_RUN_ID}; i++)); do # jobs begin their search in different places
    printf -v letter %d "'${DLRUN_RUN_ID:i:1}"
    seed=$(((seed * 31 + letter) % 1000003))
  done
  _dlrun_place_locks
  _dlrun_read_sockets
  for ((try = 0; try < span; try++)); do
    port=$((first + (seed + try) % span * count))
    for ((i = port; i < port + count; i++)); do
      if [[ -n $locks ]]; then
        _dlrun_reserve_port "$locks/$i" || break
        _dlrun_ports+=("$locks/$i")
      fi
      _dlrun_port_is_free "$i" || break
    done
    if ((i == port + count)); then
      export DLRUN_MASTER_PORT=$port
      printf '%s %s\n' "$DLRUN_MASTER_ADDR" "$port" >"$DLRUN_RUN_DIR/rendezvous"
      return 0
    fi
    _dlrun_release_ports
  done
  dlrun_log "no free block of $count ports between $first and $last on $_dlrun_host"
  exit 1
}

_dlrun_place_locks() { # sets locks to a directory that this user's jobs share here; empty: ports are only looked at
  local base=${XDG_RUNTIME_DIR-} # may be inherited from a login node, and not exist here
  if [[ $base != /* || ! -d $base || ! -O $base || ! -w $base ]]; then base=/tmp; fi
  locks=$base/dlrun-ports-$UID
  [[ -e $locks || -L $locks ]] || mkdir -m 700 "$locks" 2>/dev/null || true
  if [[ -d $locks && ! -L $locks && -O $locks && -w $locks ]]; then return 0; fi
  dlrun_log "$locks is not a directory of this user's: ports are taken without locks against other jobs"
  locks=
}

_dlrun_read_sockets() { # sets sockets to the addresses of this node in the kernel's tables, once for all ports: that is what takes time
  local table note rows=()
  if [[ -n ${DLRUN_FIRST_HOST-} && ${DLRUN_FIRST_HOST%%.*} != "$_dlrun_host" ]] && declare -F dlrun_on_node >/dev/null; then # rank 0 listens there
    mapfile -t rows < <(dlrun_on_node cat /proc/net/tcp /proc/net/tcp6 2>/dev/null </dev/null)
  elif _dlrun_recall sockets 2; then
    sockets=$note
    return 0
  else
    for table in /proc/net/tcp /proc/net/tcp6; do
      if [[ -r $table ]]; then mapfile -t -O "${#rows[@]}" rows <"$table"; fi
    done
  fi
  sockets=
  if ((${#rows[@]})); then
    rows=("${rows[@]#*: }")
    sockets=" ${rows[*]%%[[:blank:]]*} "
    _dlrun_remember sockets "$sockets"
  fi
}

_dlrun_port_is_free() { # PORT: no socket of this node uses it
  local own
  printf -v own ':%04X ' "$1"
  [[ $sockets != *"$own"* ]]
}

# What the points that begin on a node one after the other find out once: files beside the locks, with the time since the node's boot.

_dlrun_recall() { # NAME SECONDS: sets note to what a point has noted here less than so long ago; false if none has, and in other jobs
  local up='' when='' locks
  [[ -n ${DLRUN_PLACE-} ]] || return 1
  _dlrun_place_locks >/dev/null
  { IFS=' ' read -r when note <"$locks/$1" && read -r up _ </proc/uptime; } 2>/dev/null || return 1 # without a line's end it is being written
  [[ -n $locks && $when =~ ^[0-9]+$ ]] && ((10#$when <= ${up%.*} && ${up%.*} - 10#$when < $2))
}

_dlrun_remember() { # NAME TEXT
  local up locks
  [[ -n ${DLRUN_PLACE-} ]] || return 0
  _dlrun_place_locks >/dev/null
  if [[ -n $locks ]]; then { read -r up _ </proc/uptime && printf '%s %s\n' "${up%.*}" "$2" >"$locks/$1"; } 2>/dev/null || true; fi
}

_dlrun_reserve_port() { # LOCK: true if it is ours now; the lock of a process that is gone does not count
  local owner='' still='' made=''
  set -o noclobber # the file is made, or it was there
  if { : >"$1"; } 2>/dev/null; then made=1; fi
  set +o noclobber
  if [[ -z $made ]]; then
    { read -r owner <"$1"; } 2>/dev/null || return 1 # it is being written, or given back
    if kill -0 "$owner" 2>/dev/null; then return 1; fi
    _dlrun_reserve_port "$1-$owner" || return 1 # of those who see that it is gone, one alone takes its place
    { read -r still <"$1"; } 2>/dev/null || true
    if [[ $still == "$owner" ]]; then echo "$$" >"$1" && made=1; fi
    rm -f -- "$1-$owner"
    [[ -n $made ]]
  else
    echo "$$" >"$1" || true # also without it, on a disk that is full, the name is ours
  fi
} 2>/dev/null

_dlrun_release_ports() {
  if ((${#_dlrun_ports[@]})); then rm -f -- "${_dlrun_ports[@]}"; fi
  _dlrun_ports=()
}

dlrun_chain_port() { # OFFSET in the job's block of ports: at this port nodes send data to one another, authenticated by a secret
  export DLRUN_STAGE_PORT=$((DLRUN_MASTER_PORT + $1))
  (umask 077 && head -c 32 /dev/urandom | base64 >"$DLRUN_RUN_DIR/stage-secret")
}
