# shellcheck shell=bash disable=SC2154 # variables of rank.sh
# Beside the program of a node's first rank: does its MPI know the other ranks? An MPI that was built for another
# process manager than the launcher's starts as a world of one, without an error: the job is as many separate trainings.

dlrun_check_world() { # ACTION [MPI WAY_OUT]...: ACTION is warn or fail; what makes each MPI find the ranks of this launcher
  if ((DLRUN_LOCAL_RANK || DLRUN_WORLD_SIZE == 1)); then return 0; fi
  _dlrun_watch_world "$@" &
  _dlrun_watching+=("$!")
}

_dlrun_watch_world() { # until it is known, or for ten minutes, in growing pauses: a look costs as much as the node has processes
  local pause=1 waited=0 mpi='' alone='' known='' pid way
  trap '' HUP USR1 USR2
  # shellcheck source=processes.sh
  declare -F _dlrun_tree >/dev/null || source "$DLRUN_JOB_DIR/lib/processes.sh"
  while ((waited < 600)) && [[ -z $known ]]; do
    sleep "$pause"
    kill -0 "$$" 2>/dev/null || return 0
    waited=$((waited + pause)) pause=$((pause < 30 ? 2 * pause : 30))
    _dlrun_tree "$$"
    for pid in "${_dlrun_found[@]}"; do
      _dlrun_find_world "$pid"
      if [[ -n $alone$known ]]; then break 2; fi
    done
  done
  if [[ -z $alone ]]; then return 0; fi
  way="start it by the launcher of its own MPI"
  for ((pid = 2; pid < $#; pid += 2)); do
    if [[ ${!pid} == "$mpi" ]]; then way=$((pid + 1)) way=${!way}; fi
  done
  alone="$alone has no process manager that knows the other ranks: rank $DLRUN_RANK is 0 of 1, not $DLRUN_RANK of $DLRUN_WORLD_SIZE; $way"
  echo "dlrun: each rank is alone: $alone"
  if [[ $1 == fail ]]; then
    (dlrun_fail 1 "alone: $alone")
  else
    echo "dlrun: $DLRUN_HOST: each rank is alone: $alone" >&"$_dlrun_launcher"
  fi
}

# Ways in which an MPI learns of others: PMIX_NAMESPACE (PMIx); PMI_FD, PMI_PORT or PMI_RANK (PMI, by Hydra or `srun --mpi=pmi2`);
# a library of the scheduler's (libpmi, libpmi2), linked or named by I_MPI_PMI_LIBRARY; variables of MVAPICH and PALS.
_dlrun_find_world() { # PID: sets mpi and alone (its name) if its MPI is alone, known if it is not; neither: no MPI is loaded, or not started
  local names library pmix='' given='^(PMI_FD|PMI_PORT|PMI_RANK|I_MPI_PMI_LIBRARY|MPISPAWN_[A-Z_]*|PALS_[A-Z_]*)=.'
  names=$(LC_ALL=C grep -asE '/(libopen-pal|libmpi[a-z0-9_]*|libpmi[a-z0-9_]*|mca_ess_singleton)\.so' "/proc/$1/maps") || return 0
  if LC_ALL=C grep -qsz '^PMIX_NAMESPACE=.' "/proc/$1/environ"; then pmix=1; fi
  if [[ $names == */libopen-pal.so* ]]; then
    mpi=openmpi
    if [[ $names == */mca_ess_singleton.so* ]]; then # before Open MPI 5
      alone='Open MPI'
    elif [[ -n $pmix ]]; then
      known=1
    elif [[ $names =~ /libopen-pal\.so\.[89][0-9] ]]; then # from 5 on only PMIx
      alone='Open MPI'
    fi
    return 0
  fi
  if [[ $names != */libmpi* ]]; then return 0; fi
  mpi=mpich
  library=$(LC_ALL=C grep -soEm1 '/[^ ]*/libmpi\.so\.[0-9.]+$' <<<"$names")
  if [[ -n $library ]] && LC_ALL=C grep -qs I_MPI_PMI_LIBRARY "$library"; then mpi=intel-mpi; fi
  if [[ $names =~ /libpmi[0-9]*\.so ]] || LC_ALL=C grep -qszE "$given" "/proc/$1/environ"; then
    known=1
  elif [[ -n $pmix && $names == */libpmix.so* ]]; then
    known=1
  elif [[ -n $pmix && $mpi == intel-mpi ]] && ! LC_ALL=C grep -qsz '^OMPI_COMM_WORLD_SIZE=.' "/proc/$1/environ"; then
    known=1 # by Slurm: it loads the library of PMIx when it starts
  elif [[ $mpi == intel-mpi ]]; then
    alone='Intel MPI'
  else
    alone=MPICH
  fi
}
