# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Pull a container image into the store beside the job directories (dlrun/jobs/images/place.py has the same one), if it is not there:
# on a login node, or in a job (lib/pull.sh).
# Arguments: base (of job directories), repository (name in the store), uri, digest (empty: not known), of_file (`true`: it is that
# of the file), encoded (the URI in JSON), date (seconds since 1970), room (GB free in the temporary directory to unpack there).
# Prints lines `say TEXT`, `beat` while it waits, and at last `fail TEXT`, `none` without a container runtime, or `done BYTES PATH` and, in so many bytes,
# the mark of the image.
umask 077
place=$base/.dlrun-hub-$EUID/$repository
machine=$(uname -m)
fail() {
  printf 'fail %s\n' "$1"
  exit 0
}
private() { [[ -d $1 && ! -L $1 && -O $1 && $(stat -c %a -- "$1") == *00 ]]; }
free() { df -Pk -- "$1" | awk 'NR == 2 { print int($4 / 1048576) }'; }
last() { # the last line of the runtime that is not empty, without colours
  tail -c 10000 -- "$log" | tr '\r' '\n' | sed $'s/\e\\[[0-9;]*[A-Za-z]//g; s/[[:cntrl:]]//g; s/^[[:space:]]*//; s/^[A-Z]*: *//; /^$/d' | tail -n 1
}
name_it() { version=$place/${digest#sha256:}-$machine; } # set `version`
is_there() { # whether the image is there as a whole
  local size
  [[ -n $digest ]] && private "$version" && size=$(sed -n 's/^ "bytes": \([0-9]*\),$/\1/p' "$version.json" 2>/dev/null) &&
    [[ -n $size && $(stat -c %s -- "$version/image.sif" 2>/dev/null) == "$size" ]]
}
answer() {
  touch -- "$version.json" # the time of its last use
  printf 'done %s %s\n' "$(stat -c %s -- "$version.json")" "$version/image.sif"
  cat -- "$version.json"
  exit 0
}
progress() { # wait for the runtime, with a line about it from time to time; its exit code
  local waited=0
  while kill -0 "$puller" 2>/dev/null; do
    sleep 0.2
    if ((++waited % 5 == 0)); then echo beat || exit 1; fi # ends the script where the connection is lost
    if ((waited % 50 == 0)); then printf 'say %s; %s written\n' "$(last)" "$(du -shc -- "$work" "$unpacked" 2>/dev/null | tail -n 1 | cut -f 1)"; fi
  done
  wait "$puller"
}
mkdir -p -- "$base"
for one in "${place%/*}" "$place"; do
  mkdir -- "$one" 2>/dev/null
  private "$one" || fail "\`$one\` is not a directory that only you can change"
done
name_it
if is_there; then answer; fi
runtime=$(type -P apptainer || type -P singularity) || {
  echo none
  exit 0
}
exec 9>>"$place/.lock"
if ! flock -n 9; then
  echo 'say another job or submission pulls from this repository; waiting for it'
  until flock -w 10 9; do
    sleep 1 # where locks do not work, either
    echo 'say still waiting'
  done
fi
if is_there; then answer; fi
work=$place/.${digest#sha256:}-$machine.parts
if [[ $of_file == true ]]; then work=$place/.latest-$machine.parts; fi
mkdir -p -- "$work" || fail "\`$work\` cannot be made"
rm -rf -- "$work"/new-*
new=$(mktemp -d -- "$work/new-XXXXXX") && unpacked=${TMPDIR:-/tmp}
if (($(free "$unpacked") < room && $(free "$unpacked") < $(free "$work"))); then unpacked=$work; fi
unpacked=$(mktemp -d -- "$unpacked/dlrun-image-XXXXXX") || fail "no room for the conversion: \`TMPDIR\` on that host names a place for it"
log=$new/image.log
if [[ -z ${APPTAINER_CACHEDIR-}${SINGULARITY_CACHEDIR-} ]]; then export APPTAINER_CACHEDIR=$work/cache SINGULARITY_CACHEDIR=$work/cache; fi
if [[ -z ${APPTAINER_TMPDIR-}${SINGULARITY_TMPDIR-} ]]; then export APPTAINER_TMPDIR=$unpacked SINGULARITY_TMPDIR=$unpacked; fi
puller=
# shellcheck disable=SC2329 # a trap calls it
end() { # a broken connection ends the pull, too
  trap '' HUP INT PIPE TERM
  if [[ -n $puller ]]; then kill -- "-$puller" 2>/dev/null; fi
  chmod -R u+rwx -- "$unpacked"
  rm -rf -- "$unpacked"
} 2>/dev/null
trap end EXIT
trap 'exit 1' HUP INT PIPE TERM
printf 'say pulled and converted once for all jobs, by %s, into %s\n' "$runtime" "$place"
set -m # a process group of its own
"$runtime" pull "$new/image.sif" "$uri" </dev/null >"$log" 2>&1 9>&- &
puller=$!
progress || fail "$(last)"
puller=
[[ -f $new/image.sif && ! -L $new/image.sif ]] || fail "$runtime has written no file"
if [[ $of_file == true ]]; then
  read -r digest _ < <(sha256sum -- "$new/image.sif")
  digest=sha256:$digest
  name_it
  if is_there; then
    rm -rf -- "$work"
    answer
  fi
fi
size=$(stat -c %s -- "$new/image.sif")
rm -rf -- "$version" "$version.json" "$place/.${version##*/}.new"
{
  mkdir -- "$place/.${version##*/}.new" && chmod 400 -- "$new/image.sif" && sync -- "$new/image.sif" &&
    mv -- "$new/image.sif" "$place/.${version##*/}.new/" && mv -- "$place/.${version##*/}.new" "$version" &&
    printf '{\n "version": 1,\n "image": %s,\n "digest": "%s",\n "of_file": %s,\n "files": 1,\n "bytes": %s,\n "architecture": "%s",\n "fetched": %s\n}\n' \
      "$encoded" "$digest" "$of_file" "$size" "$machine" "$date" >"$version.json.new" &&
    mv -- "$version.json.new" "$version.json"
} 2>"$log" || fail "$(last)"
chmod -R u+rwx -- "$work"
rm -rf -- "$work"
answer
