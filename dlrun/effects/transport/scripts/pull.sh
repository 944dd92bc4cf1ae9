# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# Give what is new in a job's files, each time a line `poll` is read. Given: directory, growing and whole
# (patterns), at (bytes of each growing file that are known already).
# Says for each file `SIZE OFFSET BYTES NAME` with so many bytes after it, then `.`; or `gone`.
cd -- "$directory" || { echo gone; exit 0; }
shopt -s nullglob
declare -A seen=()
give() { # NAME OFFSET SIZE: those bytes; zeros for what was cut off meanwhile
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
      if ((size < known)); then known=0; fi # it was begun anew
      if ((size > known)); then give "$name" "$known" "$size"; fi
      at["$name"]=$size
    done < <(printf '%s\0' "${files[@]}" | xargs -0 stat -c '%s %n' --) # more than one command line holds
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
