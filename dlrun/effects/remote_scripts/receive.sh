# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# Make a job directory from a tar stream: complete, or not there at all. Given: directory, token, needed.
# Says `there` if it was made before, `taken` if by somebody else, `missing` if the directory `needed` is not there, else `send`,
# takes the stream, and says `complete`.
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
mkdir -p -- "$base" || exit 73
find "$base" -maxdepth 1 -name '.*.new' -mtime +2 -exec rm -rf -- {} + # parts that nobody came back for
if [[ -e $new ]]; then # a part that an earlier attempt left; if its tar still runs, it ends in what is thrown away
  old=$(mktemp -d -- "$base/.${directory##*/}.old-XXXXXX") || exit 73
  mv -- "$new" "$old/" 2>/dev/null
  rm -rf -- "$old"
fi
mkdir -m 700 -- "$new" || exit 73
echo send
if tar -x -f - -C "$new" && [[ $(cat -- "$new/$mark" 2>/dev/null) == "$token" ]] &&
  { mv -T -- "$new" "$directory" || [[ -d $directory ]]; }; then
  echo complete
else
  rm -rf -- "$new"
  exit 74
fi
