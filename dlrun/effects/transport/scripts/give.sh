# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# The files whose names come on standard input, NUL after each, as a tar stream. Given: directory.
cd -- "$directory" || exit 66
while IFS= read -r -d '' name; do
  if [[ -e $name || -L $name ]]; then printf '%s\0' "$name"; fi # a checkpoint may be gone since the list was made
done | exec tar -c -f - --no-recursion --null -T -
