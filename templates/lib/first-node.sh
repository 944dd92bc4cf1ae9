# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Where a job outlives its nodes (Slurm's --no-kill), it lives on without its first one, too, and so without its script. Another node
# therefore watches the count that the script, or pool.py, writes to `.alive`.

_dlrun_on_event chosen _dlrun_watch_first_node
_dlrun_on_event launch _dlrun_await_watcher
_dlrun_watch_first_node() {
  local host granted
  mapfile -t granted <"$DLRUN_HOSTS-granted"
  _dlrun_watchers=()
  for host in "${_dlrun_chosen[@]}" "${granted[@]}"; do # a bad node only if there is no other
    if [[ $host != "${granted[0]}" ]]; then _dlrun_watchers+=("$host"); fi
  done
  if ((${#_dlrun_watchers[@]} == 0)); then return 0; fi
  _dlrun_script_host=${granted[0]}
  _dlrun_on_event second _dlrun_show_life
  _dlrun_show_life
}
_dlrun_watcher='' _dlrun_watched='' _dlrun_beats=0 # its process, and the file where it shows here that it has begun

_dlrun_show_life() {
  ((_dlrun_beats++ % 5 == 0)) || return 0
  { printf '%s\n' "$_dlrun_beats" >"$DLRUN_RUN_DIR/.alive"; } 2>/dev/null || true
  if ((_dlrun_beats % 60 != 1)) || { [[ -n $_dlrun_watcher ]] && kill -0 "$_dlrun_watcher" 2>/dev/null; }; then return 0; fi
  { : >"$DLRUN_RUN_DIR/.watched"; } 2>/dev/null || _dlrun_watched=/dev/null
  dlrun_start_watcher _dlrun_watch_from "${_dlrun_watchers[0]}" >"${_dlrun_watched:=$DLRUN_RUN_DIR/.watched}" 2>/dev/null
  _dlrun_watcher=${_dlrun_beside[-1]}
  _dlrun_watchers=("${_dlrun_watchers[@]:1}" "${_dlrun_watchers[0]}") # the next time another, for this one may be lost
}

_dlrun_await_watcher() { # before the ranks start, for a loss before it has begun would not be noticed; at most ten seconds
  local waited
  for ((waited = 0; waited < 100; waited++)); do
    if [[ ! -f $_dlrun_watched || -s $_dlrun_watched ]] || ! kill -0 "$_dlrun_watcher" 2>/dev/null; then break; fi
    sleep 0.1
  done
}

_dlrun_watch_from() { # HOST: become the step there, which takes nothing from those of a launcher: hydra starts its own without --overlap
  local how=cancel
  if [[ ${_dlrun_causes-} == *' node_failed '* ]] && ((DLRUN_RESTART < _dlrun_requeues)); then how=requeue; fi
  unset -v SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_NTASKS_PER_NODE
  exec srun --overlap --nodes=1 --ntasks=1 --mem=0 --cpu-bind=none --export=ALL --nodelist="$1" \
    bash -p "$DLRUN_JOB_DIR/lib/first-node.sh" "$_dlrun_script_host" "$DLRUN_RUN_DIR" "$how"
}

_dlrun_await_loss() { # FIRST DIRECTORY: until that node does not belong to the job any more
  local beat='' last='' unchanged=0 nodes=
  while [[ -z $nodes || " $nodes" == *" $1 "* ]] && sleep 10; do
    { read -r beat <"$2/.alive"; } 2>/dev/null || true
    if [[ $beat == "$last" ]]; then unchanged=$((unchanged + 1)); else unchanged=0; fi
    last=$beat
    if ((unchanged && unchanged % 6 == 0)); then # a minute
      nodes=$(squeue -h -j "$SLURM_JOB_ID" -o %N) && nodes=$(scontrol show hostnames "$nodes" | tr '\n' ' ')
    fi
  done
}

_dlrun_end_without_first() { # FIRST DIRECTORY HOW: record the loss, and `requeue` the job or end it
  local record='' now
  printf -v now '%(%s)T' -1
  { read -r record <"$2/state.json"; } 2>/dev/null || true
  record=${record/'"state": "running"'/'"state": "ended"'} record=${record/'"ended": null'/"\"ended\": $now"}
  record=${record/'"exit_code": null'/'"exit_code": 1'} record=${record/'"reason": null'/'"reason": "node failed"'}
  printf '%s, "lost": ["%s"]}\n' "${record%\}}" "$1" >"$2/.state.first" && mv -f "$2/.state.first" "$2/state.json"
  if [[ -d $2/failures ]]; then
    printf '%s000000000 node 0 %s 1 node failed: %s, on which job.sh ran, is lost\n' "$now" "$1" "$1" >"$2/failures/node-0"
  fi
  echo "dlrun: node $1, on which the job's script ran, is lost: the job ends" >>"$2/logs/job.log"
  if [[ $3 != requeue ]] || ! scontrol requeue "$SLURM_JOB_ID" 2>/dev/null; then scancel --quiet "$SLURM_JOB_ID"; fi
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  echo begun
  _dlrun_await_loss "$1" "$2"
  _dlrun_end_without_first "$@"
fi
