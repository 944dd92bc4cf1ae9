# shellcheck shell=bash disable=SC2154 # what is given stands before the script
# Run a scheduler's client. Given: client (words), unwanted (variables). Exit code 127: it is not installed.
((${#unwanted[@]} == 0)) || unset "${unwanted[@]}"
type -P -- "${client[0]}" >/dev/null || exit 127
exec "${client[@]}"
