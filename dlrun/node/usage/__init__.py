"""The sampler: records the resource usage of a job's ranks on this node as JSON lines (`docs/guide/usage.md`).

It is copied to the job as `usage.py`. One process per node runs it during the training, with the lowest priority:

    python3 - $$ LOG CHECKPOINTS <usage.py    # DLRUN_RUN_DIR, DLRUN_RUN_ID, DLRUN_HOST, DLRUN_NODE_RANK as `rank.sh` sets them

Read in this order: `sampler` (schedule and file), `ranks`, `machine`, `cgroup`, `gpus` (`nvml`, `smi`, `amd`, `rocm`,
`level_zero`), `numa`, `saving`; all use `procfs`.
"""
