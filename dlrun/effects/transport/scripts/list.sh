# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# The files and links of a job, each `TYPE SIZE MTIME NAME` and NUL. Given: directory, names (files, directories or patterns).
cd -- "$directory" || exit 66
shopt -s nullglob globstar
IFS=
# shellcheck disable=SC2206 # patterns
found=(${names[@]})
((${#found[@]})) || exit 0
exec find "${found[@]}" \( -type f -o -type l \) -printf '%y %s %T@ %p\0'
