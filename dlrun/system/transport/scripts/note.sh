# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Write a small file of a job atomically. Arguments: directory, name, text.
umask 077
cd -- "$directory" && printf '%s' "$text" >".$name.$$" && mv -f -- ".$name.$$" "$name"
