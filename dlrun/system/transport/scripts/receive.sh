# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Create a job directory from a tar stream, atomically. Arguments: directory, token, needed, jobs (base of job directories).
# Prints `there` if an earlier attempt created it, `taken` if its name is in use, `blocked` if its hidden name is, `missing`
# without the directory `needed`; else `send`, or what `offer` prints (stored.sh), reads the stream, and prints `complete`.
# Exit codes: 73 cannot write there, 74 the stream was incomplete or could not be written.
umask 077
base=${directory%/*} new=${directory%/*}/.${directory##*/}.new
mark=.submission/complete # the last file of the stream
if [[ -e $directory ]]; then
  if [[ $(cat -- "$directory/$mark" 2>/dev/null) == "$token" ]]; then echo there; else echo taken; fi
  exit 0
elif [[ -n $needed && ! -d $needed ]]; then
  echo missing
  exit 0
fi
part() { # DIRECTORY: whether this script created it; nothing else is ever removed
  [[ -d $1 && ! -L $1 && -O $1 && $(cat -- "$1/.submission/part" 2>/dev/null) == dlrun ]]
}
begin() { # create a part with a unique name, in `made`; it gets its mark before it is renamed
  made=$(mktemp -d -- "$base/.${directory##*/}.XXXXXX.new") && mkdir -- "$made/.submission" && echo dlrun >"$made/.submission/part"
}
throw_away() { # PART: remove it; first move it, since removing takes time, unless the disk is full
  made=
  if begin; then mv -- "$1" "$made/" 2>/dev/null; else rm -rf -- "$1"; fi
  [[ -z $made ]] || rm -rf -- "$made"
  [[ ! -e $1 ]]
}
mkdir -p -- "$base" || exit 73
if [[ $base == "$jobs" ]]; then # abandoned parts of any submission
  while IFS= read -r -d '' old; do
    if part "$old"; then rm -rf -- "$old"; fi
  done < <(find "$base" -mindepth 1 -maxdepth 1 -type d -name '.*.new' -mtime +2 -print0)
fi
for old in "$base/.${directory##*/}."??????.new; do # parts of earlier attempts, with their unique names
  if part "$old"; then rm -rf -- "$old"; else rmdir -- "$old/.submission" "$old" 2>/dev/null; fi
done
if [[ -e $new || -L $new ]]; then
  # A part of an earlier attempt; if its tar still runs, it writes into the directory that is removed.
  if ! part "$new"; then
    echo blocked
    exit 0
  fi
  throw_away "$new" || exit 73
fi
begin && cd -- "$made" && mv -T -- "$made" "$new" || exit 73
own() { [[ . -ef $new ]]; } # a later attempt may have removed this part, and created its own
if ((keys)); then head -c "$keys" >.keys || exit 73; fi
if ((keys == 0)) || ! offer; then
  rm -rf -- .objects .keys
  echo send
fi
if tar -x -f - && own && lay_out && [[ $(cat -- "$mark" 2>/dev/null) == "$token" ]] &&
  { mv -T -- "$new" "$directory" || [[ -d $directory ]]; }; then
  echo complete
else
  trap '' HUP INT TERM # of the connection that ends: half of it removed would stay for days
  if own; then throw_away "$new"; fi
  if ((keys)); then leave_no_empty_store; fi
  exit 74
fi
