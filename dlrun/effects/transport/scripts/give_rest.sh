# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# A file from an offset on. Given: directory, name, offset.
cd -- "$directory" || exit 66
exec tail -c "+$((offset + 1))" -- "$name"
