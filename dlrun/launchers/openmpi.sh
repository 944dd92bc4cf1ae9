# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Open MPI's mpirun: it wants the slots of each host, and forwards no variable by itself.

dlrun_openmpi() { # SLOTS MPIRUN ARGUMENTS...: run it with `-x NAME` for each exported variable, beside host files with slots
  _dlrun_slots "$1" "$DLRUN_HOSTS"
  _dlrun_slots "$1" "$DLRUN_HOSTS-first"
  # In Slurm mpirun takes the slots from this: in an allocation those of its tasks, in a step those of the step.
  if [[ -n ${SLURM_TASKS_PER_NODE-} ]]; then
    SLURM_TASKS_PER_NODE=$1
    if ((${SLURM_JOB_NUM_NODES:-1} > 1)); then SLURM_TASKS_PER_NODE+="(x$SLURM_JOB_NUM_NODES)"; fi
    export SLURM_TASKS_PER_NODE
  fi
  shift
  _dlrun_names=()
  for _dlrun_name in $(compgen -e); do
    case $_dlrun_name in
    HOSTNAME | PWD | OLDPWD | SHLVL | _ | TERM | DISPLAY | OMPI_* | PMIX_* | PRTE_* | SLURM_* | PBS_* | BASH_FUNC_*) ;;
    *) _dlrun_names+=(-x "$_dlrun_name") ;;
    esac
  done
  exec "$1" "${_dlrun_names[@]}" "${@:2}"
}

_dlrun_slots() { # SLOTS FILE: FILE-xSLOTS is the same hosts with so many slots each
  local host
  while read -r host; do printf '%s slots=%s\n' "$host" "$1"; done <"$2" >"$2-x$1"
}
