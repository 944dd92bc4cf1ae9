# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# Write a small file of a job, whole or not at all. Given: directory, name, text.
umask 077
cd -- "$directory" && printf '%s' "$text" >".$name.$$" && mv -f -- ".$name.$$" "$name"
