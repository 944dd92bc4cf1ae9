# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Print files as a tar stream; their names are read from standard input, each followed by NUL. Argument: directory.
cd -- "$directory" || exit 66
while IFS= read -r -d '' name; do
  if [[ -e $name || -L $name ]]; then printf '%s\0' "$name"; fi # it may have been removed since it was listed
done | exec tar -c -f - --no-recursion --null -T -
