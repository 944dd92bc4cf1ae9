# shellcheck shell=bash disable=SC2154 # the arguments are assigned before the script
# Files of a job that this host has in the store of code (`.dlrun-code-UID/objects`, a file by its digest) are not sent again.
# Argument: keys (bytes of the list of files on standard input, `ab/REST` in each line; 0: the store is not used), date (of files
# in the store), unused (minutes after which a file that no job uses goes), tree (directory for the code of a snapshot, else empty).
# In the job directory until it is complete: .objects/ links to files of the store, .laid/ links to those by the names in files/,
# .fresh/ links to files that came by the names in the store, .times the times of the files in .laid/.
private() { [[ -d $1 && ! -L $1 && -O $1 && $(stat -c %a -- "$1") == *00 ]]; }
find_store() { # set `store`: in the base of job directories, or beside the job directory if that is on another file system
  store=$base/.dlrun-code-$EUID
  if [[ -n $jobs ]]; then
    mkdir -p -- "$jobs"
    if [[ $(stat -c %d -- "$jobs") == "$(stat -c %d -- "$base")" ]]; then store=$jobs/.dlrun-code-$EUID; fi
  fi
  if [[ ! -e $store ]]; then mkdir -- "$store"; fi
  private "$store" && mkdir -p -- "$store/objects" && private "$store/objects"
}
lines() { sed 's|^\(..\)/\(.\{62\}\)x\{0,1\}$|\1\2  &|'; } # of sha256sum, from names in the store
offer() { # print what is missing: `store` and the number of bytes that follow, the numbers of files in the list; false: no store
  local name names=() numbers=() text
  mkdir .objects && ln .keys .objects/list && rm .objects/list && find_store || return 1
  # Those that no job has used for so long go, and with links of our own the others stay.
  find "$store/objects" -type f -links 1 -cmin "+$unused" -delete
  (cd -- "$store/objects" && xargs -r cp -l --parents -t "$new/.objects" -- <"$new/.keys")
  while IFS= read -r name; do # a power cut damages what was not flushed
    rm -f -- ".objects/$name" "$store/objects/$name"
  done < <(cd .objects && find . -type f -printf '%P\n' | lines | LC_ALL=C sha256sum --check --quiet | sed -n 's/: FAILED.*//p')
  mapfile -t names <.keys
  for name in "${!names[@]}"; do
    if [[ ! -f .objects/${names[name]} ]]; then numbers+=("$name"); fi
  done
  text=${numbers[*]-}
  printf 'store %s\n%s' "${#text}" "$text"
} 2>/dev/null
lay_out() { # complete files/ with what was not sent, as copies, which the job may change; of a snapshot as links, which it may not
  local how=(--reflink=auto)
  if [[ -n $tree ]]; then how=(-l); fi
  if [[ -d .laid ]]; then
    cp -RP "${how[@]}" -T -- .laid files || return 1
    if [[ -z $tree ]]; then chmod -R u+w -- files && set_times || return 1; fi
    rm -rf -- .laid
  fi
  if [[ -d .fresh ]]; then keep; fi
  rm -rf -- .objects .fresh .kept .keys .times
  if [[ -n $tree ]]; then
    find files -type f -perm /222 -exec chmod a-w,g=,o= {} + -exec touch -d "@$date" {} + &&
      mkdir -p -- "${tree%/*}" && cp -RPl -T -- files "$tree"
  fi
}
set_times() { # as the user's, to the second
  local item time='' names=()
  while IFS= read -r -d '' item; do
    if [[ $item == @* ]] || ((${#names[@]} == 500)); then
      if ((${#names[@]})); then touch -c -d "$time" -- "${names[@]}" || return 1; fi
      names=()
    fi
    if [[ $item == @* ]]; then time=$item; else names+=("$item"); fi
  done <.times
  if ((${#names[@]})); then touch -c -d "$time" -- "${names[@]}"; fi
}
keep() { # copy what came to the store; where that fails, it is sent again another time
  cp -RP "${how[@]}" -T -- .fresh .kept && (
    cd .kept && find . -type f -printf '%P\n' | lines | sha256sum --check --status &&
      find . -type f -exec chmod u-w,g=,o= {} + -exec touch -d "@$date" {} + &&
      find . -type f -printf '%P\0' | xargs -0 -r cp -l --parents -t "$store/objects" --
  )
} >/dev/null 2>&1
leave_no_empty_store() { rmdir -- "$store/objects" "$store"; } 2>/dev/null
