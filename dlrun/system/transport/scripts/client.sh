# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Run a scheduler's client. Arguments: client (words), unwanted (variables to unset). Exit code 127: it is not installed.
((${#unwanted[@]} == 0)) || unset "${unwanted[@]}"
type -P -- "${client[0]}" >/dev/null || exit 127
exec "${client[@]}"
