"""Options of qsub(1) and complexes (complex(5)) of Grid Engine 8.1.9."""

from dlrun.schedulers.options import OptionTable, optional, written

OPTIONS = OptionTable(
    [
        written("N", "name"),
        written("pe", "resources.nodes and its neighbours, and scheduler.parallel_environment in the site profile", "nodes"),
        written("l:h_rt", "resources.walltime", "walltime"),
        written("q", "resources.partition", "partition"),
        written("P", "resources.account", "account"),
        written("l:hostname l:h", "resources.hosts and resources.exclude", "hosts"),
        written("t tc", "sweep", "array"),
        written("hold_jid", "after"),
        written("h", "hold"),
        written("r", "on_failure.requeue"),
        written("notify l:s_rt", "checkpoint, whose signal reaches the ranks alone"),
        written("o e j", "`dlrun logs` shows the output, which is in the job directory"),
        optional("A", "resources.account", "account"),
        optional("masterq l:qname l:q", "resources.partition", "partition"),
        optional("ar", "resources.reservation", "reservation"),
        optional(
            "l:h_vmem l:s_vmem l:h_data l:s_data l:h_rss l:s_rss l:mem_free l:mf l:virtual_free l:vf",
            "resources.memory_per_node", "memory",
        ),
    ],
    lists="l",
    resources="l",
    long="ac ar binding ckpt clear dc dl js jsv masterl masterq now sc shell",
)  # fmt: skip
"""`long`: options of qsub of more than one letter; any other such name is a complex."""
