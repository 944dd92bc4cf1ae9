# shellcheck shell=bash disable=SC2154 # variables of lib/job.sh
# A cache of the run's own in the form of the Hugging Face Hub's library, hub/ in its directory: a program that names a model or
# data set as on the hub finds what was fetched at the submission. Sourced by job.sh.

dlrun_hub_cache() { # make it, with links to what the user's own cache has
  local entry from=${HF_HUB_CACHE:-${HF_HOME:-${XDG_CACHE_HOME:-${HOME-}/.cache}/huggingface}/hub} links=() to=$DLRUN_RUN_DIR/hub
  rm -rf -- "$to" # of an earlier start
  mkdir -p -- "$to"
  for entry in "$from"/{models,datasets,spaces}--*; do
    if [[ -d $entry ]]; then links+=("$entry"); fi
  done
  if ((${#links[@]})); then ln -s -t "$to" -- "${links[@]}" || true; fi
}

dlrun_in_hub() { # NAME REVISION COMMIT DIRECTORY: a repository in that cache; `main` is this commit, unless the job has the branch itself
  local place=$DLRUN_RUN_DIR/hub/$1
  if [[ -L $place ]]; then rm -f -- "$place"; fi
  mkdir -p -- "$place/refs" "$place/snapshots"
  if [[ $2 == */* ]]; then mkdir -p -- "$place/refs/${2%/*}"; fi
  ln -sfn -- "$4" "$place/snapshots/$3"
  if [[ $2 != "$3" ]]; then printf %s "$3" >"$place/refs/$2"; fi
  if [[ ! -e $place/refs/main ]]; then printf %s "$3" >"$place/refs/main"; fi
}

_dlrun_remove_hub() { rm -rf -- "$DLRUN_RUN_DIR/hub"; } # links, which would lead to what other jobs have there
_dlrun_on_event gone _dlrun_remove_hub
