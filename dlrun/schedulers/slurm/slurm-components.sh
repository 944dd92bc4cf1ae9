# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# A heterogeneous job of Slurm: its nodes are those of several components, and steps begin in one of them (`--het-group`).

dlrun_component_hosts() { # print the hosts of all components, in their order
  local number nodes
  for ((number = 0; number < SLURM_HET_SIZE; number++)); do
    nodes=SLURM_JOB_NODELIST_HET_GROUP_$number
    scontrol show hostnames "${!nodes}" || return 1
  done
}

# srun takes those of a component as its options, and then refuses others, such as SLURM_MEM_PER_NODE beside SLURM_MEM_PER_CPU.
for _dlrun_name in "${!SLURM_@}"; do
  case $_dlrun_name in
    SLURM_JOB_NODELIST_HET_GROUP_*) ;;
    *_HET_GROUP_* | *_PACK_GROUP_*) unset -v "$_dlrun_name" ;;
  esac
done
unset -v _dlrun_name
