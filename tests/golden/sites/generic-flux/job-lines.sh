# flux: --job-name=published
# flux: --output=logs/job.log
# flux: --nodes=4
# flux: --broker-opts=-Sbroker.quorum=1
# flux: --exclusive
# flux: --time-limit=3600s
export DLRUN_MASTER_ADDR="$DLRUN_FIRST_HOST"
export PYTHONUNBUFFERED=1
dlrun_launch dlrun_flux flux --nodes=4 --ntasks=16 -o cpu-affinity=off -o gpu-affinity=off -o mpibind=off -o exit-on-error bash -p "$DLRUN_JOB_DIR/rank.sh" rank
