# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# A job inside an allocation of Slurm: steps share CPUs and memory with the shell, which may itself be a step; and job.sh may
# run on the login node that holds the allocation.

export SLURM_OVERLAP=1 SLURM_MEM_PER_NODE=0 # srun(1): as --overlap and --mem=0; mpirun and mpiexec start steps as well
unset -v SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU # srun accepts only one of the three
# In a step these two describe the step, and mpirun reads them as the nodes of the job.
export SLURM_NODELIST=$SLURM_JOB_NODELIST SLURM_NNODES=$SLURM_JOB_NUM_NODES

dlrun_on_node() { # COMMAND...: run it on the host DLRUN_FIRST_HOST
  srun ${DLRUN_COMPONENT:+--het-group="$DLRUN_COMPONENT"} --nodes=1 --ntasks=1 --nodelist="$DLRUN_FIRST_HOST" --overlap --mem=0 --cpu-bind=none --quiet "$@"
}
