# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Print the files and links of a job, each as `TYPE SIZE MTIME NAME` and NUL. Arguments: directory, names (files,
# directories or patterns).
cd -- "$directory" || exit 66
shopt -s nullglob globstar
IFS=
# shellcheck disable=SC2206 # patterns
found=(${names[@]})
((${#found[@]})) || exit 0
exec find "${found[@]}" \( -type f -o -type l \) -printf '%y %s %T@ %p\0'
