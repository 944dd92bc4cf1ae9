#!/bin/bash
#SBATCH --job-name=pairs
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=8
#SBATCH --time=00:30:00

# Job pairs on site amd, written by dlrun VERSION.
# It needs bash and the scheduler, not dlrun: read it, change it, submit it by hand from its own directory.
# What runs as each rank is in rank.sh; every decision with its reason is in plan.json.
#
# Why these directives:
#   --job-name=pairs -- the spec's name
#   --output=logs/job.log -- standard output and error, in the job directory
#   --no-requeue -- on_failure does not ask for requeues
#   --nodes=2 -- 2 nodes
#   --ntasks=8 -- 8 ranks
#   --ntasks-per-node=4 -- at most 4 ranks a node
#   --cpus-per-task=16 -- cores of each rank
#   --gpus-per-node=8 -- 8 GPUs on each node
#   --time=00:30:00 -- the walltime, 30m

# shellcheck disable=SC1091,SC2016,SC2317,SC2329 # literal dollars are meant; some functions are called by traps alone
set -euo pipefail

# --- Where this run keeps its things ------------------------------------------------------------------

export DLRUN_JOB_DIR=/home/ada/jobs/slurm-ssh-rocm # the job directory: this script, the plan, logs
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" || true # how often the scheduler started this job again
export DLRUN_RESTART # for a program that wants to know whether to go on from a checkpoint
export DLRUN_RUN_DIR=$DLRUN_JOB_DIR # logs and state; a point of a sweep has its own
export DLRUN_RUN_ID="$DLRUN_JOB_ID.$DLRUN_RESTART" # changes with every start
export DLRUN_HOSTS=$DLRUN_RUN_DIR/hosts # a file with the nodes, the first one first
user='\u' # as in a prompt: no process is started for it
export DLRUN_USER=${user@P} # for names on storage that all users of a node share
export DLRUN_NODES=2 # how many of them run ranks
run_dir=$DLRUN_RUN_DIR
if [[ -d $run_dir/failures ]]; then rm -rf "$run_dir/failures"; fi # of an earlier start
mkdir -p "$run_dir/logs" "$run_dir/failures"

# --- Say where the run stands ---------------------------------------------------------------------------

printf -v started '%(%s)T' -1
read -r host </proc/sys/kernel/hostname # $HOSTNAME may be inherited from where the job was submitted
host=${host%%.*}
say() { printf 'dlrun: %s\n' "$*"; }

record() { # STATE [EXIT_CODE [REASON]]: write state.json, whole or not at all
  local ended=null exit_code=null reason=null
  if [[ $1 == ended ]]; then
    printf -v ended '%(%s)T' -1
    exit_code=$2
  fi
  if [[ -n ${3-} ]]; then reason='"'$3'"'; fi
  printf '{"version": 1, "state": "%s", "job_id": "%s", "host": "%s", "started": %s, "ended": %s, "exit_code": %s, "reason": %s, "restarts": %s}\n' \
    "$1" "$DLRUN_JOB_ID" "$host" "$started" "$ended" "$exit_code" "$reason" "${DLRUN_RESTART:-0}" >"$run_dir/.state.$$"
  mv -f "$run_dir/.state.$$" "$run_dir/state.json"
}

# --- Ending well: no process is left behind ---------------------------------------------------------------

grace=10 # seconds between asking processes to end and ending them
steps=() # process ids of what was started
main=    # process id of the training step

descendants() { # PID...: every process below these, read from /proc
  local stat pid parent rest all=("$@") found=1
  local -A below=()
  for pid in "$@"; do below[$pid]=1; done
  while ((found)); do
    found=0
    for stat in /proc/[0-9]*/stat; do
      { read -r pid rest <"$stat"; } 2>/dev/null || continue
      rest=${rest##*) } # the name may hold spaces and brackets
      parent=${rest#* } parent=${parent%% *}
      if [[ -n ${below[$parent]-} && -z ${below[$pid]-} ]]; then
        below[$pid]=1 all+=("$pid") found=1
      fi
    done
  done
  ((${#all[@]} == $#)) || printf '%s\n' "${all[@]:$#}"
}

take_down() { # PID...: SIGTERM, then after the grace SIGKILL for each and for all below it
  local pid alive waited tree running=()
  for pid in "$@"; do
    if kill -0 "$pid" 2>/dev/null; then running+=("$pid"); fi
  done
  ((${#running[@]})) || return 0
  set -- "${running[@]}"
  mapfile -t tree < <(descendants "$@")
  kill -TERM "$@" 2>/dev/null || true
  for ((waited = 0; waited < grace * 10; waited++)); do
    alive=0
    for pid in "$@" "${tree[@]}"; do
      if kill -0 "$pid" 2>/dev/null; then alive=1; fi
    done
    ((alive)) || return 0
    sleep 0.1
  done
  mapfile -t -O "${#tree[@]}" tree < <(descendants "$@")
  kill -KILL "$@" "${tree[@]}" 2>/dev/null || true
}

finish() { # what happens whenever this script ends, however it ends
  local status=$? reason=
  if ((BASHPID != $$)); then exit; fi # a child that was signalled before it became its own program
  trap '' TERM INT HUP
  trap - EXIT
  set +e # whatever fails from here on, the end is recorded
  take_down "${steps[@]}"
  if ((status)); then first_failure; fi
  release_ports
  settle
  record ended "$status" "$reason"
  say "job $DLRUN_JOB_ID ended with exit code $status"
  exit "$status"
}

some_failed() { compgen -G "$run_dir/failures/*" >/dev/null; }

failed_first() { # print when, role, rank, host, exit code and reason of the process that failed first; false if none did
  local note when rest late now off
  some_failed || return 1
  now=$(date +%s%N)
  for note in "$run_dir"/failures/*; do
    when='' late=''
    { read -r when rest && read -r late; } 2>/dev/null <"$note" || true
    [[ -n $when ]] || continue # not there yet
    off=0 # how far that node's clock is ahead of this one's, if it must be wrong
    if ((${late:-0} < -2000000000)); then # it began before it was launched
      off=$late
    elif ((when > now + 2000000000)); then # it ended in the future
      off=${late:-$((when - now))}
    fi
    if ((off)); then # this node's clock counts, also for `dlrun why`
      when=$((when - off))
      printf '%s %s\n' "$when" "$rest" >"$note"
    fi
    printf '%s %s\n' "$when" "$rest"
  done | sort -n | sed -n 1p
}

first_failure() { # name it, with its last words; it may have ended only because of another: `dlrun why` reads the logs, too
  local first role rank host code note words line
  first=$(failed_first) || return 0
  read -r _ role rank host code note <<<"$first"
  say "first failure: $role $rank on $host ended with exit code $code${note:+, $note}; by time alone, \`dlrun why ${DLRUN_JOB_DIR##*/}${DLRUN_POINT:+:$DLRUN_POINT}\` finds the cause; the end of logs/$role-$rank.log:"
  words=$(tail -c 4096 -- "$run_dir/logs/$role-$rank.log" 2>/dev/null | tail -n 15 | tr -d '\0') || true # a line may be huge
  words=${words##*"dlrun: run $((${DLRUN_RESTART:-0} + 1))"} # what stands above is of an earlier run
  if [[ -n $words ]]; then while IFS= read -r line; do printf '  | %s\n' "$line"; done <<<"${words#$'\n'}"; fi
}

give_up() { # WHY: end the job, with the exit code of what failed first
  local first status=1
  say "$1"
  if first=$(failed_first); then read -r _ _ _ _ status _ <<<"$first"; fi
  exit "$status"
}

settle() { # why it ended: sets reason, and where another run is to follow, starts that
  if [[ -n $asked ]]; then return; fi # by the scheduler, or the user
  if ((status)) && grep -qs 'out of memory$' "$run_dir"/failures/*; then reason='out of memory'; fi
  if ((status)) && [[ -n ${first_host-} && -z $reason ]]; then lost_nodes; fi
}

there() { # HOST: it answers, if only by refusing
  local said
  said=$(timeout -s KILL 20 ssh -o BatchMode=yes "$1" true </dev/null 2>&1) ||
    [[ $said == *[Dd]enied* || $said == *'verification failed'* ]]
}

lost_nodes() { # after a failure: is every node still there? If not, what failed elsewhere only followed from that
  local host count=0 when lost=()
  mapfile -t lost < <(
    while read -r host; do
      there "$host" || printf '%s\n' "$host" &
      if ((++count % 64 == 0)); then wait; fi
    done <"$DLRUN_HOSTS"
    wait
  )
  if ((${#lost[@]} == 0 || ${#lost[@]} == DLRUN_NODES)); then return; fi # all of them: then it is something else
  reason='node failed'
  if when=$(failed_first); then when=$((${when%% *} - 1)); else when=$(date +%s%N); fi
  printf '%s node 0 %s 255 node failed: %s does not answer any more\n' "$when" "${lost[0]}" "${lost[0]}" >"$run_dir/failures/node-0"
  say "not answering any more: ${lost[*]}"
}

release_ports() { :; } # replaced once ports are taken
asked= # set if the job was asked to end
trap finish EXIT
trap 'say "asked to end"; asked=1; exit 143' TERM
trap 'say "interrupted"; asked=1; exit 130' INT
trap '' HUP

# --- The nodes that were granted --------------------------------------------------------------------------

scontrol show hostnames "$SLURM_JOB_NODELIST" >"$DLRUN_HOSTS"
read -r first_host <"$DLRUN_HOSTS" || { say "slurm names no granted node"; exit 1; }
printf '%s\n' "$first_host" >"$run_dir/hosts-first"
record running
say "job $DLRUN_JOB_ID starts; rank 0 is on $first_host; each rank's output is in $run_dir/logs"

# --- Environment ------------------------------------------------------------------------------------------

cd -- /home/ada/project

# --- Where ranks meet -------------------------------------------------------------------------------------

port_is_free() { # PORT: has no socket of this node taken it?
  local table rows row
  printf -v row ': [0-9A-F]+:%04X ' "$1"
  for table in /proc/net/tcp /proc/net/tcp6; do
    [[ -r $table ]] || continue
    mapfile -t rows <"$table"
    if [[ ${rows[*]} =~ $row ]]; then return 1; fi
  done
}

take_ports() { # COUNT: a block of free ports, reserved against other jobs of yours on this node; sets port
  local count=$1 span=$((29999 - 20000 + 1)) seed=0 letter try i
  for ((i = 0; i < ${#DLRUN_RUN_ID}; i++)); do # jobs begin their search in different places
    printf -v letter %d "'${DLRUN_RUN_ID:i:1}"
    seed=$(((seed * 31 + letter) % 1000003))
  done
  local locks=${XDG_RUNTIME_DIR:-/tmp}/dlrun-ports-$UID
  [[ -d $locks ]] || mkdir -m 700 "$locks" 2>/dev/null || true
  [[ -O $locks && ! -L $locks ]] || { say "$locks is not yours: remove it"; exit 1; }
  for ((try = 0; try < span / count; try++)); do
    port=$((20000 + (seed + try) % (span / count) * count))
    ports=()
    for ((i = port; i < port + count; i++)); do
      reserve_port "$locks/$i" || break
      ports+=("$locks/$i")
      port_is_free "$i" || break
    done
    if ((i == port + count)); then return 0; fi
    release_ports
  done
  say "no free block of $count ports between 20000 and 29999 on $host"
  exit 1
}

reserve_port() { # LOCK: true if it is ours now; the lock of a process that is gone does not count
  local owner taken=0
  set -o noclobber # the file is made, or it was there
  { echo "$$" >"$1"; } 2>/dev/null || taken=1
  set +o noclobber
  ((taken)) || return 0
  { read -r owner <"$1"; } 2>/dev/null || return 1
  if kill -0 "$owner" 2>/dev/null; then return 1; fi
  echo "$$" >"$1"
}

ports=()
release_ports() { ((${#ports[@]} == 0)) || rm -f -- "${ports[@]}"; }

# the first host, as the scheduler names it
DLRUN_MASTER_ADDR="$first_host"
[[ -n $DLRUN_MASTER_ADDR ]] || { say "$host has no such address"; exit 1; }
export DLRUN_MASTER_ADDR # where ranks meet
take_ports 1
export DLRUN_MASTER_PORT=$port # free on this node a moment ago
printf '%s %s\n' "$DLRUN_MASTER_ADDR" "$DLRUN_MASTER_PORT" >"$run_dir/rendezvous"

# --- Launch -----------------------------------------------------------------------------------------------

start_ssh() { # HOSTS PER_NODE COUNT N SSH... PROGRAM...: ranks on every host, by an ssh command of N words
  local hosts=$1 per_node=$2 count=$3 rank=0 local_rank host line pipe left status=0 signalled
  local ranks=() lines=() ssh=("${@:5:$4}")
  shift $((4 + $4))
  if [[ ${ssh[0]##*/} == ssh ]]; then ssh+=(-o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=3); fi # a node that dies, or is dead, ends its ssh
  trap - EXIT
  trap '' PIPE # a broken connection shows when its ssh ends
  trap 'end_ranks; exit 143' TERM
  pipe=$(mktemp -d)/line
  while read -r host <&3; do
    for ((local_rank = 0; local_rank < per_node && rank < count; local_rank++, rank++)); do
      mkfifo -m 600 "$pipe"
      (
        for line in "${lines[@]}"; do exec {line}>&-; done
        exec "${ssh[@]}" "$host" bash -s <"$pipe"
      ) &
      ranks+=($!)
      exec {line}>"$pipe"
      lines+=("$line")
      rm -f "$pipe"
      on_host "$rank" "$local_rank" "$@" >&"$line"
    done
  done 3<"$hosts"
  rmdir "${pipe%/*}"
  left=${#ranks[@]}
  while ((left)); do
    signalled=
    status=0
    wait -n || status=$?
    if [[ -n $signalled ]]; then continue; fi
    left=$((left - 1))
    if ((status)); then break; fi
  done
  if ((status)); then end_ranks; fi
  exit "$status"
}

on_host() { # RANK LOCAL_RANK PROGRAM...: what the shell on a host reads, so that nothing is in a process list
  local -x DLRUN_RANK=$1 DLRUN_LOCAL_RANK=$2
  printf '{\n'
  export -p | sed '/^declare -[a-z]* \(HOSTNAME\|PWD\|OLDPWD\|SHLVL\|_\)[=]/d'
  printf 'cd -- %q || exit\n' "$PWD"
  printf '%q ' "${@:3}"
  # What follows on its standard input are signals; its end means that the job, or the connection, is gone.
  printf '%s\n' '</dev/null &' 'rank=$!' 'exec 3<&0' \
    '{ while read -r signal; do kill -s "$signal" "$rank"; done; kill "$rank"; } <&3 2>/dev/null &' \
    'wait "$rank"; status=$?; kill "$!" 2>/dev/null; exit "$status"' '}'
}

end_ranks() { # hang up: each rank is asked to end, and its ssh ends with it; what does not is taken down
  local line waited alive pid
  for line in "${lines[@]}"; do exec {line}>&-; done
  lines=()
  for ((waited = 0; waited < grace * 10; waited++)); do
    alive=0
    for pid in "${ranks[@]}"; do
      if kill -0 "$pid" 2>/dev/null; then alive=1; fi
    done
    ((alive)) || return 0
    sleep 0.1
  done
  take_down "${ranks[@]}"
}

export OMP_NUM_THREADS=16 # 64 cores / 4 ranks [OpenMP 5.2, chapter 21]
export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]

export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 8 × rank, 4 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
start_ssh "$run_dir"/hosts 4 8 3 ssh -o BatchMode=yes bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &
steps+=($!)
main=$!

failing=0 # seconds since a process failed; the others get three to end by themselves and say why
while kill -0 "$main" 2>/dev/null; do
  sleep 1 &
  tick=$!
  wait -n || true # the training, a service, a signal or the tick
  kill "$tick" 2>/dev/null || true
  wait "$tick" 2>/dev/null || true
  if some_failed && ((++failing > 3)); then give_up "a process failed and the rest did not end by themselves"; fi
done
status=0
wait "$main" || status=$?
if first=$(failed_first); then read -r _ _ _ _ status _ <<<"$first"; fi # the launcher's own code may be a later one's
exit "$status"
