# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Print a file from an offset on. Arguments: directory, name, offset.
cd -- "$directory" || exit 66
exec tail -c "+$((offset + 1))" -- "$name"
