# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# Make a job directory from a tar stream: complete, or not there at all. Given: directory, token, needed, jobs (dlrun's own directory).
# Says `there` if it was made before, `taken` if by somebody else, `blocked` if its hidden name is, `missing` if the directory
# `needed` is not there, else `send`, takes the stream, and says `complete`.
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
part() { # DIRECTORY: is it one that this script began? Nothing else is ever removed
  [[ -d $1 && ! -L $1 && -O $1 && $(cat -- "$1/.submission/part" 2>/dev/null) == dlrun ]]
}
begin() { # a part under a name of its own, in `made`: no other name is given to one that lacks its mark
  made=$(mktemp -d -- "$base/.${directory##*/}.XXXXXX.new") && mkdir -- "$made/.submission" && echo dlrun >"$made/.submission/part"
}
throw_away() { # PART: out of the way at once, for removing takes time; where the disk is full, as it stands
  made=
  if begin; then mv -- "$1" "$made/" 2>/dev/null; else rm -rf -- "$1"; fi
  [[ -z $made ]] || rm -rf -- "$made"
  [[ ! -e $1 ]]
}
mkdir -p -- "$base" || exit 73
if [[ $base == "$jobs" ]]; then # parts that nobody came back for
  while IFS= read -r -d '' old; do
    if part "$old"; then rm -rf -- "$old"; fi
  done < <(find "$base" -mindepth 1 -maxdepth 1 -type d -name '.*.new' -mtime +2 -print0)
fi
for old in "$base/.${directory##*/}."??????.new; do # what earlier attempts at this one had under names of their own
  if part "$old"; then rm -rf -- "$old"; else rmdir -- "$old/.submission" "$old" 2>/dev/null; fi
done
if [[ -e $new || -L $new ]]; then
  # A part that an earlier attempt left; if its tar still runs, it ends in what is thrown away.
  if ! part "$new"; then
    echo blocked
    exit 0
  fi
  throw_away "$new" || exit 73
fi
begin && cd -- "$made" && mv -T -- "$made" "$new" || exit 73
own() { [[ . -ef $new ]]; } # a later attempt may have thrown this one's away, and have begun its own
echo send
if tar -x -f - && own && [[ $(cat -- "$mark" 2>/dev/null) == "$token" ]] &&
  { mv -T -- "$new" "$directory" || [[ -d $directory ]]; }; then
  echo complete
else
  if own; then throw_away "$new"; fi
  exit 74
fi
