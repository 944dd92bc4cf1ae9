# shellcheck shell=bash disable=SC2154 # variables of lib/job.sh
# In job.sh, where nodes do not reach the internet: how the recorded runs reach the tracker's server after the end.

_dlrun_name_offline() {
  local place
  if ! _dlrun_matches wandb 'offline-run-*' >/dev/null; then return 0; fi
  printf -v place %q "$DLRUN_RUN_DIR/wandb"
  dlrun_log "Weights & Biases was offline; on a host with internet: wandb sync $place/offline-run-*"
}
_dlrun_on_event gone _dlrun_name_offline
