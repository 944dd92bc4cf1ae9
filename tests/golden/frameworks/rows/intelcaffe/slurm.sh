export OMP_NUM_THREADS=22 # 48 cores / 2 ranks, 2 reserved for communication and data loading [OpenMP 5.2, chapter 21]
export MLSL_ROOT=/opt/intel/mlsl # set by the spec, spec.yaml:13:26
dlrun_launch srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --distribution=block --kill-on-bad-exit=1 --export=ALL \
  --cpu-bind=none bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export MLSL_NUM_SERVERS=2 # one per communication core of the rank [Intel MLSL, src/comm_ep.cpp]
export MLSL_SERVER_AFFINITY=23,22,47,46 # the communication cores of all ranks of a node [Intel MLSL, src/comm_ep.cpp]
export MLSL_LOG_LEVEL=1 # errors and warnings [Intel MLSL, src/comm_ep.cpp]
export I_MPI_SPAWN=1 # MLSL spawns its servers, which Intel MPI from 2019 on allows only with this variable [Intel MLSL, src/comm_ep.cpp]
export KMP_AFFINITY=granularity=fine,compact,1,0 # one thread per place, within the mask
export KMP_BLOCKTIME=1 # idle threads sleep after 1 ms [pytorch torch/backends/xeon/run_cpu.py]
export GLOG_minloglevel=0 # logs everything, as in Intel Caffe's script [intel/caffe scripts/run_intelcaffe.sh]
export INTERNAL_THREADS_PIN
INTERNAL_THREADS_PIN="$(set -- 20,21 44,45; shift "$DLRUN_LOCAL_RANK"; printf %s "$1")" # the last two hardware threads of this rank only [intel/caffe scripts/run_intelcaffe.sh]
export FI_PROVIDER=psm2 # provider of the site's fabric; before Intel MPI 2019: I_MPI_FABRICS=shm:tmi with I_MPI_TMI_PROVIDER=psm2 [Intel MPI Library Developer Reference]
dlrun_fit_cores OMP_NUM_THREADS MLSL_SERVER_AFFINITY KMP_AFFINITY # to what was granted, if that is not the plan's
dlrun_run caffe train --solver solver.prototxt
