"""Programs that run on compute nodes: standard library only, Python 3.6 syntax, nothing else of dlrun.

They travel as one file, `node.pyz` (`bundle.write`), or run in place: `python3 -m dlrun.node COMMAND ...`.

    stage       copy a data set to this node, or to all nodes of a job at once
    stage-out   copy results from this node to a shared file system
    list, evict, clean, verify      manage the data sets of a node
    fix-venv, results               prepare a staged Python environment, and the directory for results
    check-rank, check-site          report the state of a rank, and of a node

Read `common`, `source`, `blocks`, `store`, `transfer`, `staging`, then `network` and `relay` (several nodes), and `commands`.
`checks`, `usage` and the modules beside them are programs of their own.

One node:

    python3 node.pyz stage --source /scratch/imagenet --to /local/$USER/dlrun --name imagenet

A job runs the same command on every node, with the node's index. The file `hosts` has one host a line, and the first
host reads the source; the file `secret`, of mode 0600, has the job's secret; the port must be free on all nodes:

    srun --ntasks-per-node=1 sh -c 'python3 node.pyz stage --source /scratch/imagenet --to /local/$USER/dlrun \\
        --name imagenet --hosts hosts --index $SLURM_NODEID --port 29411 --secret secret --job $SLURM_JOB_ID --lasting 4h'

Exit status 0: the data set is published on this node, complete and checked, and its path is on stdout:
DIR/NAME/data, a directory like the source (a single file, or the selection of a glob, lies inside it); with
`--strategy pack` DIR/NAME/data/NAME.tar and its index. Exit status 1: the set is not published, and stderr has the
reason; the blocks copied so far are kept for the next run. Exit status 2: the arguments are not valid. Results:

    python3 node.pyz stage-out --source /local/$USER/results --to /scratch/run17 --update --deadline 5m

At the end of a job `clean --to DIR --job ID` ends its use of the sets and removes those staged with `--keep job`;
the remains of a killed job are removed when the next job stages. Every command has `--help`; `--json` writes one
JSON object a line: progress, waiting, lost (a node of the job), and at the end `done`.
"""
