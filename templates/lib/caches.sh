# shellcheck shell=bash
# Private directories on this node for what compilers keep, made before the program of a rank starts; job.sh and stage.sh find them.

dlrun_caches() { # BASE KEY IMAGE VARIABLE=DIRECTORY[@|%][:UNLESS][+SWITCH]...: with `@` each rank has its own, with `%` each run; IMAGE: `yes` in
  local below=$2 image=$3 name one own path place='' paths=() new=() set=() switch # a container; UNLESS: a directory in HOME that is used if it has entries
  if _dlrun_place_caches "$1"; then shift 3; else
    _dlrun_no_caches "no directory for them that only this user can write"
    return 0
  fi
  if [[ $image == yes && $place == *[:,^]* ]]; then # Apptainer's lists of paths have no way to write these
    _dlrun_no_caches "a name for them that cannot be bound into a container ($place)"
    return 0
  fi
  export DLRUN_CACHES=$place/$below
  for one; do
    name=${one%%=*} switch='' # a variable without which the tool keeps nothing
    if [[ $one == *+* ]]; then switch=${one##*+} one=${one%+*}; fi
    own=${one#*:} one=${one%%:*}
    path=$DLRUN_CACHES/${one#*=}
    if [[ -n ${!name-} ]]; then
      _dlrun_check_cache "$name"
      continue
    fi
    if [[ $own != "$one" ]] && _dlrun_has_entries "$own"; then continue; fi
    case $path in
    *@) path=${path%@}/$DLRUN_LOCAL_RANK ;;
    *%)
      [[ -n ${DLRUN_CACHES_RUN-} ]] || continue
      path=${path%\%}
      _dlrun_link_cache "$DLRUN_CACHES/.runs/$DLRUN_CACHES_RUN/${path##*/}" "$path" || continue
      ;;
    esac
    paths+=("$path") set+=("$name=$path")
    if [[ -n $switch && ! -v $switch ]]; then set+=("$switch=1"); fi
  done
  ((${#paths[@]})) || return 0
  for path in "${paths[@]}"; do if [[ ! -d $path ]]; then new+=("$path"); fi; done
  if ! { { ((${#new[@]} == 0)) || (umask 077 && mkdir -p -- "${new[@]}"); } && echo >"$DLRUN_CACHES/.used"; } 2>/dev/null; then
    _dlrun_no_caches "no room in $place"
    return 0
  fi
  export "${set[@]}"
  if [[ $image == yes ]]; then
    export APPTAINER_BIND="${APPTAINER_BIND:+$APPTAINER_BIND,}$DLRUN_CACHES" SINGULARITY_BIND="${SINGULARITY_BIND:+$SINGULARITY_BIND,}$DLRUN_CACHES"
  fi
}

_dlrun_no_caches() { # WHY: one line for each node
  unset -v DLRUN_CACHES
  if ((DLRUN_LOCAL_RANK == 0)); then echo "dlrun: caches: $DLRUN_HOST has $1: each tool uses its own"; fi
}

_dlrun_has_entries() { # DIRECTORY of HOME, or below XDG_CACHE_HOME
  local found=("${HOME-}/$1"/* "${XDG_CACHE_HOME:-${HOME-}/.cache}/${1#.cache/}"/*)
  [[ -e ${found[0]} || -e ${found[1]} ]]
}

_dlrun_link_cache() { # DIRECTORY LINK: make both; the path of JAX's cache is a part of its keys, and is the same in all runs
  (umask 077 && mkdir -p -- "$1") 2>/dev/null || return 1
  if [[ $(readlink -- "$2") == "$1" ]]; then return 0; fi
  ln -s -- "$1" "$2.$$" 2>/dev/null && mv -fT -- "$2.$$" "$2" 2>/dev/null # several ranks do so at once
}

_dlrun_place_caches() { # BASE: set place to the directory of this user's caches; false if this node has none
  local base
  for base in "$1" /tmp; do
    place=$base/dlrun-caches-${DLRUN_USER:-$EUID}
    if _dlrun_make_private "$place"; then return 0; fi
  done
  return 1
}

_dlrun_make_private() { # DIRECTORY: make it, or use it if no one else could have written in it; several ranks do so at once
  [[ $1 == /* ]] || return 1
  if [[ ! -d $1 ]] && mkdir -m 700 -- "$1" 2>/dev/null; then return 0; fi
  [[ -d $1 && ! -L $1 && -O $1 && -w $1 && $(exec stat -c %a -- "$1" 2>/dev/null) == 700 ]]
}

_dlrun_check_cache() { # VARIABLE: what the user or a module has set is kept, with a warning on a network file system
  local path=${!1} kind
  if ((DLRUN_LOCAL_RANK)); then return 0; fi
  while [[ -n $path && $path == */* && ! -e $path ]]; do path=${path%/*}; done
  kind=$(stat -f -c %T -- "${path:-/}" 2>/dev/null) || return 0
  case $kind in
  nfs* | lustre | gpfs | fhgfs | beegfs | ceph | afs | smb* | cifs | panfs | pvfs2 | wekafs)
    echo "dlrun: caches: $1 is kept as it was set, ${!1}, which is on $kind: compilers on several nodes may break one another there"
    ;;
  esac
}
