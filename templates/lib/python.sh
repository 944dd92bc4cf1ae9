# shellcheck shell=bash
# The Python of dlrun's own programs on a node: the system's before that of modules, 3.6 or later, and isolated (-I), so that
# no module or variable of the training's Python changes them. Sourced; or run as `bash lib/python.sh PROGRAM ARGUMENT...`.

_dlrun_python=() # the command, once it is chosen

dlrun_python() { # PROGRAM ARGUMENT...
  _dlrun_choose_python && "${_dlrun_python[@]}" "$@"
}

_dlrun_choose_python() { # sets _dlrun_python; false, with a message, if this node has none
  local place places seen=' ' older='no python3 on PATH' host=''
  if ((${#_dlrun_python[@]})); then return 0; fi
  { read -r host </proc/sys/kernel/hostname; } 2>/dev/null || true
  host+=:${DLRUN_NODE_PYTHON-}:${LD_LIBRARY_PATH-}:${LD_PRELOAD-} # what the choice depends on
  if [[ ${DLRUN_CHECKED_PYTHON-} == "$host":* && -x ${DLRUN_CHECKED_PYTHON#"$host":} ]]; then # by a script above this one
    _dlrun_python=("${DLRUN_CHECKED_PYTHON#"$host":}" -I)
    return 0
  fi
  mapfile -t places < <(_dlrun_pythons)
  for place in ${places[@]+"${places[@]}"}; do
    if [[ $seen == *" $place "* || ! -x $place ]]; then continue; fi
    seen+="$place "
    _dlrun_python=("$place" -I)
    if _dlrun_runs "${_dlrun_python[@]}"; then
      export DLRUN_CHECKED_PYTHON=$host:$place
      return 0
    fi
    _dlrun_python=(env -u LD_LIBRARY_PATH -u LD_PRELOAD "$place" -I) # modules may have put other libraries there
    if _dlrun_runs "${_dlrun_python[@]}"; then return 0; fi
    older="$place is $("$place" --version 2>&1 | head -n 1)"
  done
  _dlrun_python=()
  echo "dlrun: this node has no Python for dlrun's own programs, which need 3.6 or later ($older): name one with \`python\` in the site profile"
  return 1
}

_dlrun_pythons() { # print their paths, the best first
  local path
  if [[ -n ${DLRUN_NODE_PYTHON-} ]]; then # the site's
    type -P "$DLRUN_NODE_PYTHON" || echo "$DLRUN_NODE_PYTHON"
    return 0
  fi
  echo /usr/bin/python3
  for path in "${DLRUN_PATH-}" "${PATH-}"; do # before the set-up lines, and after
    PATH=$path type -aP python3
  done
  compgen -G '/usr/bin/python3.[0-9]' || true
  compgen -G '/usr/bin/python3.[0-9][0-9]' || true
  echo /usr/libexec/platform-python # Red Hat's, which is always there
}

_dlrun_runs() { # COMMAND...: true if this Python is recent enough, and loads its own libraries
  "$@" -S -c 'import ctypes, hashlib, importlib.util, socket, sys, zlib
sys.exit(sys.version_info < (3, 6) or not importlib.util.find_spec("asyncio"))' </dev/null >/dev/null 2>&1
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  _dlrun_choose_python || exit
  exec "${_dlrun_python[@]}" "$@"
fi
