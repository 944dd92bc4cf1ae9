"""Options of sbatch(1), Slurm 25.05."""

from dlrun.schedulers.options import OptionTable, optional, written

_GPU = r"(^|[,/])gpu"
OPTIONS = OptionTable(
    [
        written("job-name J", "name"),
        written("nodes N", "resources.nodes", "nodes"),
        written("ntasks n", "resources.ranks"),
        written("ntasks-per-node", "resources.ranks_per_node"),
        written("cpus-per-task c", "resources.cpus_per_rank"),
        written("nodelist w", "resources.hosts", "hosts"),
        written("exclude x", "resources.exclude"),
        written("time t", "resources.walltime", "walltime"),
        written("dependency d", "after"),
        written("hold H", "hold"),
        written("array a", "sweep", "array"),
        written("signal", "checkpoint"),
        written("requeue no-requeue", "on_failure.requeue"),
        written("output o error e open-mode", "`dlrun logs` shows the output, which is in the job directory"),
        optional("account A", "resources.account", "account"),
        optional("partition p", "resources.partition", "partition"),
        optional("qos q", "resources.qos", "qos"),
        optional("constraint C prefer", "resources.constraint", "constraint"),
        optional("reservation", "resources.reservation", "reservation"),
        optional("time-min", "resources.walltime", "walltime"),
        optional("mem mem-per-cpu mem-per-gpu", "resources.memory_per_node", "memory"),
        optional("exclusive", "resources.exclusive", "exclusive"),
        optional("gpus G gpus-per-node gpus-per-task gpus-per-socket", "resources.gpus_per_node", "gpus"),
        optional("gres tres-per-node tres-per-task", "resources.gpus_per_node", "gpus", pattern=_GPU),
        optional("nodefile F", "resources.hosts", "hosts"),
    ],
    abbreviated=True,
    others="acctg-freq batch bb bbf begin chdir clusters cluster-constraint comment consolidate-segments container container-id "
    "contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu deadline delay-boot distribution export export-file extra "
    "extra-node-info get-user-env gid gpu-bind gpu-freq gres-flags hint ignore-pbs input kill-on-invalid-dep licenses mail-type "
    "mail-user mcs-label mem-bind mincpus network nice no-kill ntasks-per-core ntasks-per-gpu ntasks-per-socket overcommit "
    "oversubscribe parsable power priority profile propagate quiet reboot resv-ports segment sockets-per-node spread-job stepmgr "
    "switches test-only thread-spec threads-per-core tmp tres-bind uid use-min-nodes verbose wait wait-all-nodes wckey wrap",
)
SHORT = {
    "A": "account", "C": "constraint", "D": "chdir", "G": "gpus", "H": "hold", "J": "job-name", "N": "nodes",
    "a": "array", "c": "cpus-per-task", "d": "dependency", "e": "error", "i": "input", "k": "no-kill", "m": "distribution",
    "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "t": "time", "w": "nodelist", "x": "exclude",
    "L": "licenses", "M": "clusters", "O": "overcommit", "s": "oversubscribe", "B": "extra-node-info", "b": "begin",
    "F": "nodefile", "S": "core-spec", "Q": "quiet", "v": "verbose", "W": "wait",
}  # fmt: skip
"""One-letter option of sbatch -> its long name."""
