# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Print the new data of a job's files each time a line `poll` is read. Arguments: directory, growing and whole (patterns),
# at (known bytes of each growing file).
# Output: for each file a line `OFFSET BYTES NAME` and so many bytes, then `.`; or `gone` without the directory.
cd -- "$directory" || { echo gone; exit 0; }
shopt -s nullglob
declare -A seen=()
give() { # NAME OFFSET SIZE: the bytes from OFFSET to SIZE; zeros for what was truncated meanwhile
  printf '%s %s %s\n' "$2" "$(($3 - $2))" "$1"
  { tail -c "+$(($2 + 1))" -- "$1" && head -c "$(($3 - $2))" /dev/zero; } 2>/dev/null | head -c "$(($3 - $2))"
}
IFS= # patterns may hold spaces, and are not split
while read -r request && [[ $request == poll ]]; do
  # shellcheck disable=SC2206 # patterns
  files=(${growing[@]})
  if ((${#files[@]})); then
    while IFS=' ' read -r size name; do
      known=${at[$name]-0}
      if ((size < known)); then known=0; fi # truncated or replaced
      if ((size > known)); then give "$name" "$known" "$size"; fi
      at["$name"]=$size
    done < <(printf '%s\0' "${files[@]}" | xargs -0 stat -c '%s %n' --) # the names may not fit into one command line
  fi
  # shellcheck disable=SC2206 # patterns
  files=(${whole[@]})
  if ((${#files[@]})); then
    while IFS=' ' read -r size mark name; do
      if [[ ${seen[$name]-} != "$mark" ]]; then give "$name" 0 "$size"; fi
      seen[$name]=$mark
    done < <(printf '%s\0' "${files[@]}" | xargs -0 stat -c '%s %i-%.Y %n' --)
  fi
  echo .
done
