# shellcheck shell=bash disable=SC2034,SC2154 # for rank.sh, which precedes it in one file
# The socket by which a launcher learns that a rank has ended: it waits until the rank and all that it has started have closed it.
# What the rank leaves behind is found by it, whatever environment that has.

_dlrun_take_own_socket() { # NAME: the variable with its number
  local number=${!1-}
  unset -v DLRUN_OWN_SOCKET # a job inside this one has others
  if [[ -n $number && $number != *[!0-9]* && -S /proc/$$/fd/$number ]]; then _dlrun_own_socket=$number; fi
}

_dlrun_close_own_socket() { # in what runs beside the program
  eval "exec $_dlrun_own_socket>&-"
}

_dlrun_find_holders() { # set _dlrun_holders to the processes beside this one that hold it
  local file
  _dlrun_holders=()
  for file in /proc/[0-9]*/fd/"$_dlrun_own_socket"; do
    [[ $file -ef /proc/$$/fd/$_dlrun_own_socket ]] || continue
    file=${file#/proc/} file=${file%%/*}
    if ((file != $$)); then _dlrun_holders+=("$file"); fi
  done
}
