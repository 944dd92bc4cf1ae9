# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Print files of a job directory that are replaced while the job runs. Arguments: directory, names.
# Prints `missing` without the directory; else `there`, and for each file the last line about it in the list of dlrun's files, its
# number of bytes, and these.
if ! cd -- "$directory" 2>/dev/null; then
  echo missing
  exit 0
fi
if [[ -e .lock ]] && type -P flock >/dev/null; then # not between the replacement of one and of the next
  exec 9<.lock
  flock -s -w 60 9
fi
echo there
for name in "${names[@]}"; do
  grep -F -- "\"path\": \"$name\"" .dlrun-written | tail -n 1 | grep . || echo
  exec 8<"$name" || exit 74
  stat -L -c %s /proc/self/fd/8
  cat <&8
done
