"""The sampler: what the ranks of a job use on this node, as JSON lines in the job directory (`docs/guide/usage.md`).

It travels as `usage.pyz`. One process of each node runs it beside the training, at the lowest priority:

    python3 usage.pyz $$      # DLRUN_RUN_DIR, DLRUN_RUN_ID, DLRUN_HOST, DLRUN_NODE_RANK as `rank.sh` sets them

`sampler` (when, and the file) > `ranks`, `machine`, `cgroup`, `gpus` (`nvml`, `amd`, `level_zero`) > `procfs`.
"""
