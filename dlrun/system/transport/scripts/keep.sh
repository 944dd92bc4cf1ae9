# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Link a job directory to the mark of what it uses in a store. Arguments: mark, name (of the link).
if [[ $mark -ef $name ]]; then exit 0; fi
ln -f -- "$mark" "$name" || [[ -e $mark ]] # another file system: it has a copy
