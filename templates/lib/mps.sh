# shellcheck shell=bash
# NVIDIA's MPS on a node of a sweep inside one job (https://docs.nvidia.com/deploy/mps): mps.py runs this file there. It holds a
# control daemon until its standard input ends, which it does also when the job's program is killed. The daemon's directories belong
# to this job alone. `ready DIRECTORY` on standard output: programs whose CUDA_MPS_PIPE_DIRECTORY it is share the GPUs.

set -uo pipefail
trap '' TERM INT HUP USR1 USR2 # those are for the points, which may save their state: the daemon, too, has to last as long
read -r _dlrun_host </proc/sys/kernel/hostname
_dlrun_place=$(mktemp -d "${TMPDIR:-/tmp}/dlrun-mps-XXXXXX" 2>/dev/null) || _dlrun_place=$(mktemp -d /tmp/dlrun-mps-XXXXXX) || exit 1
trap 'rm -rf -- "$_dlrun_place"' EXIT
mkdir -m 0700 -- "$_dlrun_place/pipe" "$_dlrun_place/log" || exit 1
export CUDA_MPS_PIPE_DIRECTORY=$_dlrun_place/pipe CUDA_MPS_LOG_DIRECTORY=$_dlrun_place/log
unset -v CUDA_VISIBLE_DEVICES CUDA_MPS_ACTIVE_THREAD_PERCENTAGE # the daemon would give the GPUs other numbers, and its clients choose by number

_dlrun_ask_mps() { # COMMAND: to the daemon, which answers at once
  echo "$1" | timeout 10 nvidia-cuda-mps-control 2>/dev/null
}

if ! type -P nvidia-cuda-mps-control >/dev/null; then
  echo "dlrun: nvidia-cuda-mps-control is not installed on $_dlrun_host" >&2
  exit 1
fi
nvidia-cuda-mps-control -f </dev/null >"$_dlrun_place/log/output" 2>&1 &
_dlrun_daemon=$!
_dlrun_until=$((SECONDS + 30))
until _dlrun_ask_mps get_server_list >/dev/null; do
  if ! kill -0 "$_dlrun_daemon" 2>/dev/null || ((SECONDS > _dlrun_until)); then
    echo "dlrun: nvidia-cuda-mps-control does not answer on $_dlrun_host" >&2
    tail -n 3 -- "$_dlrun_place"/log/* >&2
    kill -KILL "$_dlrun_daemon" 2>/dev/null
    exit 1
  fi
  sleep 0.1
done
echo "ready $CUDA_MPS_PIPE_DIRECTORY"

_dlrun_lasts=1
while ((_dlrun_lasts)); do
  read -r -t 2 _ || (($? > 128)) || _dlrun_lasts=0 # above 128: nothing came within two seconds
  if ! kill -0 "$_dlrun_daemon" 2>/dev/null; then
    echo "dlrun: the daemon of NVIDIA's MPS on $_dlrun_host has ended" >&2
    tail -n 3 -- "$_dlrun_place"/log/* >&2
    exit 1
  fi
done
mapfile -t _dlrun_servers < <(_dlrun_ask_mps get_server_list)
_dlrun_ask_mps quit >/dev/null
for ((_dlrun_tries = 0; _dlrun_tries < 50; _dlrun_tries++)); do
  kill -0 "$_dlrun_daemon" 2>/dev/null || break
  sleep 0.1
done
for _dlrun_pid in "$_dlrun_daemon" "${_dlrun_servers[@]}"; do
  if [[ $_dlrun_pid =~ ^[0-9]+$ ]]; then kill -KILL "$_dlrun_pid" 2>/dev/null; fi
done
exit 0
