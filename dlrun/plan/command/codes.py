"""Problem codes of sweeps and roles."""

COMMAND_CODES: dict[str, tuple[str, str]] = {
    "DLR083": (
        "a sweep parameter with a reserved name",
        (
            "`{{ nodes }}`, `{{ world_size }}`, `{{ global_batch }}` and others are values of the plan, which is the same for "
            "all points of a sweep (one job array). To run a job at several sizes, use `dlrun scale`."
        ),
    ),
    "DLR084": (
        "too many points in a sweep",
        "Every point has its own directory with logs. For more, let a search algorithm select them: docs/guide/sweeps.md.",
    ),
    "DLR140": (
        "a sweep that cannot run inside one job",
        (
            "With `sweep.nodes` each point has a part of a node, or with `nodes_per_point` on several. That needs a scheduler "
            "where dlrun can start such points, and on a part of a node a framework whose processes are all ranks. Some keys, "
            "such as `resources.ranks`, work only for a job array."
        ),
    ),
    "DLR142": (
        "roles that do not fit together",
        (
            "A role may need others that are in the job and do not need it in turn. Its `ready` has one of `port`, `http`, `log` "
            "and `file`. Names differ in more than case, because variables are named after them. Roles on the same node "
            "(`beside`, or a single machine) divide its cores and GPUs."
        ),
    ),
    "DLR143": (
        "a key or a site that jobs with roles do not support yet",
        (
            "Each role runs as a job of its own on its part of one allocation. That needs a scheduler and a launcher that start "
            "programs on chosen nodes of an allocation, or a single machine. Nodes of several types (`node_type` or `partition` "
            "of a role) need a scheduler whose jobs can have them: Slurm (heterogeneous jobs) or "
            "OpenPBS (chunks). `sweep` is not supported."
        ),
    ),
}
"""Code -> title, explanation."""
