#!/bin/bash
#SBATCH --job-name=burst
#SBATCH --output=logs/job.log
#SBATCH --no-requeue
#SBATCH --nodes=4
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=1
#SBATCH --time=04:00:00
#DW jobdw type=scratch access_mode=striped capacity=800GB

# Job burst on site cray, written by dlrun VERSION.
# It needs bash and the scheduler, not dlrun: read it, change it, submit it by hand from its own directory.
# What runs as each rank is in rank.sh; every decision with its reason is in plan.json.
#
# Why these directives:
#   --job-name=burst -- the spec's name
#   --output=logs/job.log -- standard output and error, in the job directory
#   --no-requeue -- on_failure does not ask for requeues
#   --nodes=4 -- 4 nodes
#   --ntasks=4 -- 4 ranks
#   --ntasks-per-node=1 -- at most 1 rank a node
#   --time=04:00:00 -- the walltime, 4h

# shellcheck disable=SC1091,SC2016,SC2317,SC2329 # literal dollars are meant; some functions are called by traps alone
set -euo pipefail

# --- Where this run keeps its things ------------------------------------------------------------------

export DLRUN_JOB_DIR=/home/ada/jobs/slurm-srun-burst-buffer # the job directory: this script, the plan, logs
export DLRUN_JOB_ID="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" # the scheduler's name for this job
DLRUN_RESTART="${SLURM_RESTART_COUNT:-0}" || true # how often the scheduler started this job again
export DLRUN_RESTART # for a program that wants to know whether to go on from a checkpoint
export DLRUN_RUN_DIR=$DLRUN_JOB_DIR # logs and state; a point of a sweep has its own
export DLRUN_RUN_ID="$DLRUN_JOB_ID.$DLRUN_RESTART" # changes with every start
export DLRUN_HOSTS=$DLRUN_RUN_DIR/hosts # a file with the nodes, the first one first
user='\u' # as in a prompt: no process is started for it
export DLRUN_USER=${user@P} # for names on storage that all users of a node share
export DLRUN_NODES=4 # how many of them run ranks
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
  if [[ -n $asked ]]; then leave; fi
  take_down "${steps[@]}"
  if ((status)); then first_failure; fi
  if [[ -z $asked ]]; then
    bring_results
    unstage
  fi
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
  go_on
}

leave() { :; } # replaced once data is staged
unstage() { :; } # as well
bring_results() { :; } # replaced once there is a place for them
release_ports() { :; } # replaced once ports are taken
asked= # set if the job was asked to end
trap finish EXIT
trap 'say "asked to end"; asked=1; exit 143' TERM
trap 'say "interrupted"; asked=1; exit 130' INT
trap '' HUP

# --- Ending in time, and going on in another run ------------------------------------------------------------

before_end=30 # seconds before the walltime ends, the ranks are ended
margin=15 # of those, what it takes to end them
due=$((14400 - before_end - 300)) # seconds after the start, with time to bring the results
told= # when the ranks were told
warn_at=$due # when they are to be

mind_the_time() { # once a second while the ranks run
  if [[ -z $told && -n $warn_at ]] && ((SECONDS >= warn_at && SECONDS >= launched + 5)); then
    told=$SECONDS
  fi
  if [[ -n $told ]] && ((SECONDS - told >= 0)); then
    say "the walltime is over: ending the ranks"
    grace=$((margin / 2))
    exit 124
  fi
}

go_on() { # after a failure, or when the time is over: another run, if the policy says so
  ((status)) || return 0
  if [[ -n $told ]]; then reason='timed out'; fi
}

# --- The nodes that were granted --------------------------------------------------------------------------

scontrol show hostnames "$SLURM_JOB_NODELIST" >"$DLRUN_HOSTS"
read -r first_host <"$DLRUN_HOSTS" || { say "slurm names no granted node"; exit 1; }
record running
say "job $DLRUN_JOB_ID starts; rank 0 is on $first_host; each rank's output is in $run_dir/logs"

# --- Environment ------------------------------------------------------------------------------------------

cd -- /home/ada/project
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV # they would change what srun does

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
take_ports 2
export DLRUN_MASTER_PORT=$port # free on this node a moment ago
printf '%s %s\n' "$DLRUN_MASTER_ADDR" "$DLRUN_MASTER_PORT" >"$run_dir/rendezvous"

# --- Launch -----------------------------------------------------------------------------------------------

export PYTHONUNBUFFERED=1 # lines reach the log when they are printed, and a killed rank loses none [Python documentation, Command line and environment]

# --- Data on every node before the first step, results from every node after the last -----------------------------------------------------------------

export DLRUN_STAGE="${DW_JOB_STRIPED}"/dlrun-"$DLRUN_USER" # node-local storage, as the site names it
mkdir -p -- /scratch/results # now, not when they are to be brought there
export DLRUN_RESULTS=$DLRUN_STAGE/.results-${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-} # what is written here is brought home
bringing() { say "bringing the results to "/scratch/results; }

bring_results() { # from every node's own storage, after a good end or a bad one; sets status if they do not arrive
  if [[ -z $in_place ]]; then return; fi
  bringing
  srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --mpi=pmix bash "$DLRUN_JOB_DIR/stage.sh" out </dev/null &
  wait "$!" || results_left
}

results_left() { # say where they are, and that this is no good end
  say "not all results were brought; what is left is on the nodes, in $DLRUN_RESULTS; each node's report is in $run_dir/logs/stage-*.log"
  if ((status == 0)); then status=1; fi
}
export DLRUN_DATA_IMAGENET=$DLRUN_STAGE/imagenet/data # data set imagenet
if [[ -f /scratch/imagenet ]]; then DLRUN_DATA_IMAGENET+=/imagenet; fi # one file, under its own name
rm -f -- "$run_dir/in-place-imagenet"
in_place= # set once all is in, and ranks may write results
keeper= # process id of the step that waits for an end after which no other can start
kept() { # wait for what it does then on each node; false if something did not arrive, or it is gone
  local waited node code some=0 wanted=1
  for ((waited = 0; some < wanted && waited < 1000; waited++)); do
    kill -0 "$keeper" 2>/dev/null || break
    if ((waited == 100)) && ! compgen -G "$run_dir/kept/heard-*" >/dev/null; then # it was not Slurm that asked: a second SIGTERM would cut it short
      kill -TERM "$keeper"
    fi
    sleep 0.1
    some=$(compgen -G "$run_dir/kept/[0-9]*" | wc -l)
  done
  for ((node = 0; node < wanted; node++)); do # each by its name: a list of the directory may be an old one
    { read -r code <"$run_dir/kept/$node"; } 2>/dev/null && [[ $code == 0 ]] || return
  done
}

on_each_node() { # TENTHS ACTION: a step of stage.sh that may take so long; false if it fails
  local waited step
  srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --mpi=pmix bash "$DLRUN_JOB_DIR/stage.sh" "$2" </dev/null &
  step=$!
  for ((waited = 0; waited < $1; waited++)); do
    kill -0 "$step" 2>/dev/null || break
    sleep 0.1
  done
  take_down "$step"
  wait "$step"
}

leave() { # the job was asked to end, and has little time: ranks, results and data at once, each node its own
  kill -TERM "${steps[@]}" 2>/dev/null
  if [[ -n $in_place ]]; then bringing; fi
  if [[ -z $keeper ]] || kept; then return; fi # what is on its way in goes by itself
  on_each_node 1000 leave || [[ -z $in_place ]] || results_left
}

unstage() { # this job's use of the data ends; where that cannot be said any more, the next job here finds out
  on_each_node 600 clean
  if [[ -n $keeper ]]; then
    touch "$run_dir/kept/none" # it has nothing to do any more
    take_down "$keeper"
  fi
}
say "staging in; each node's report is in $run_dir/logs/stage-*.log"
srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --mpi=pmix bash "$DLRUN_JOB_DIR/stage.sh" in </dev/null &
steps+=($!)
wait "${steps[-1]}" || { say "the data did not reach every node"; exit 1; }
rm -rf -- "$run_dir/kept"
mkdir -- "$run_dir/kept"
srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --mpi=pmix --overlap --mem=0 bash "$DLRUN_JOB_DIR/stage.sh" keep </dev/null & # beside the training, whose step may have taken all memory of the job
keeper=$!
in_place=1
if [[ -e $run_dir/in-place-imagenet ]]; then
  DLRUN_DATA_IMAGENET=/scratch/imagenet
  say 'data set `imagenet` is read in place'": $(head -n 1 "$run_dir/in-place-imagenet")"
fi

export DLRUN_LAUNCHED # when, in ns by this node's clock, so that after a failure those of others can be put right
# 4 × rank, 1 on each node
DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --distribution=block --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --mpi=pmix bash "$DLRUN_JOB_DIR/rank.sh" rank </dev/null &
steps+=($!)
main=$!

launched=$SECONDS
failing=0 # seconds since a process failed; the others get three to end by themselves and say why
while kill -0 "$main" 2>/dev/null; do
  sleep 1 &
  tick=$!
  wait -n || true # the training, a service, a signal or the tick
  kill "$tick" 2>/dev/null || true
  wait "$tick" 2>/dev/null || true
  mind_the_time
  if some_failed && ((++failing > 3)); then give_up "a process failed and the rest did not end by themselves"; fi
done
status=0
wait "$main" || status=$?
if first=$(failed_first); then read -r _ _ _ _ status _ <<<"$first"; fi # the launcher's own code may be a later one's
exit "$status"
