"""Rejection messages of Slurm with help for each; from slurm_errno.c and captured output (tests/captured/slurm)."""

INVALID_ACCOUNT = r"Invalid account or account/partition"
REFUSALS = {
    INVALID_ACCOUNT: (
        "name a project that you may use under resources.account; `sacctmgr show associations user=$USER` "
        "lists yours"
    ),
    r"Invalid partition name|invalid partition specified": (
        "name a partition under resources.partition; `sinfo -s` lists them"
    ),
    r"No partition specified": "name a partition under resources.partition; this cluster has no default",
    r"group not permitted to use this partition": "choose a partition that your group may use",
    r"Invalid qos": (
        "name a QOS that you may use under resources.qos; `sacctmgr show associations user=$USER "
        "format=account,qos` lists yours"
    ),
    r"Time limit specification required": "set resources.walltime",
    r"Requested time limit is invalid": (
        "shorten resources.walltime; `sinfo -o '%P %l'` shows the limit of each partition"
    ),
    r"Node count specification invalid": (
        "change resources.nodes; `scontrol show partition` shows MinNodes and MaxNodes"
    ),
    r"Requested node configuration is not available": (
        "this partition has too few nodes for `resources.nodes`, or none with the resources requested on one node: compare "
        "nodes, GPUs, cores and memory with `sinfo -o '%P %D %c %m %G'`; a host under resources.hosts may be drained or "
        "down, or in another partition: `sinfo -N -l`"
    ),
    r"More processors requested than permitted|CPU count": (
        "request fewer cores under resources.cpus_per_rank"
    ),
    r"Memory (required by task|specification)": "request less under resources.memory_per_node",
    r"Invalid feature specification": "change resources.constraint; `sinfo -o '%P %f'` lists the features",
    r"Invalid generic resource|Invalid GRES|Invalid Trackable RESource": (
        "this cluster has no such GPUs: see `sinfo -o '%P %G'`, and scheduler.gpus and gpu_type in the "
        "site profile"
    ),
    r"job submit limit, user's|AssocMax|QOSMax": (
        "you have reached a limit of your account or QOS: wait until jobs end, or request less"
    ),
    r"Job dependency problem|Circular job dependency": (
        "a job under `after` is unknown to Slurm or waits for this one"
    ),
    r"reservation": "check resources.reservation; `scontrol show reservation` lists those that you may use",
    r"Invalid job array specification": (
        "the sweep has more points than the cluster's MaxArraySize: `scontrol show config | grep "
        "MaxArraySize`"
    ),
    r"MaxJobCount limit": "the cluster's queue is full: submit again later",
    r"DNS SRV lookup failed|Could not establish a configuration|Unable to process configuration file": (
        "Slurm is installed here but not configured for a cluster: submit on a login node, with `--host LOGIN`, or "
        "choose another site with `--site`"
    ),
    r"Unable to contact slurm controller|Connection refused|Socket timed out": (
        "Slurm does not answer: try again in a minute; `scontrol ping` shows whether it is up"
    ),
    r"Rate limit exceeded": "Slurm limits the rate of requests: try again in a minute",
    r"Invalid node name": (
        "a host under resources.hosts or resources.exclude is unknown: `sinfo -N` lists them"
    ),
    r"denied for job|slurm_suspend error|Job is pending execution|slurm_update error": (
        "the job is another user's, or an administrator holds it: only the centre can release it"
    ),
    r"Access/permission denied|Invalid authentication|munge": (
        "Slurm does not accept your requests from this host: submit on a login node of the cluster"
    ),
    r"unrecognized option|invalid option|Invalid --": (
        "the site profile or the spec has a directive that this version of Slurm does not support"
    ),
    r"Batch script contains DOS line breaks": (
        "the script has Windows line ends: convert it with `sed -i 's/\\r$//'`"
    ),
}
"""Regular expression -> help; the first match counts."""
