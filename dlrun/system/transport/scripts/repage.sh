# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Replace files of a job directory while the job runs, each as a whole and in their order, if all are as `known` still. Arguments: directory, names, sizes (bytes of each on standard input), known (SHA-256 of what each replaces),
# parts (names of the incomplete files), lock (the line for `.lock` in the list of dlrun's files), changing, settled (lines for that list
# before and after), made, gone (FIRST COUNT: points whose directories are made before, or removed after).
# Prints `changed` if the files are not as `known`, else `complete`. Exit codes: 73 cannot write there, 74 the input was incomplete.
umask 077
cd -- "$directory" || exit 73
trap 'rm -f -- "${parts[@]}"' EXIT
for i in "${!names[@]}"; do
  head -c "${sizes[i]}" >"${parts[i]}" || exit 73
  [[ $(stat -c %s -- "${parts[i]}") == "${sizes[i]}" ]] || exit 74
done
trap '' HUP INT TERM PIPE # of the connection that ends: what is begun is completed
if [[ ! -e .lock ]]; then printf '%s' "$lock" >>.dlrun-written || exit 73; fi
exec 9>>.lock || exit 73
if type -P flock >/dev/null; then # as a dlrun on this host does; some file systems have no locks
  flock -w 60 -E 75 9 || [[ $? != 75 ]] || exit 73
fi
for i in "${!names[@]}"; do
  if [[ $(sha256sum <"${names[i]}") != "${known[i]}  -" ]]; then
    echo changed
    exit 0
  fi
done
points() { # FORM FIRST COUNT: paths of points
  if (($3)); then seq -f "points/%.0f$1" "$2" $(($2 + $3 - 1)); fi
}
printf '%s' "$changing" >>.dlrun-written || exit 73
points /logs "${made[@]}" | xargs -r mkdir -p -- || exit 73
for i in "${!names[@]}"; do
  touch -r "${names[i]}" -- "${parts[i]}" && chmod --reference="${names[i]}" -- "${parts[i]}" || exit 73
done
for i in "${!names[@]}"; do
  mv -f -T -- "${parts[i]}" "${names[i]}" || exit 73
done
printf '%s' "$settled" >>.dlrun-written
{
  points /logs "${gone[@]}" | xargs -r rmdir --
  points '' "${gone[@]}" | xargs -r rmdir -- # what is not empty is not only ours
} 2>/dev/null
echo complete
