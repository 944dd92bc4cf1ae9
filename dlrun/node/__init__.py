"""Programs that run on compute nodes: standard library only, Python 3.6 syntax, nothing else of dlrun.

They travel as one file, `node.pyz` (`bundle.write`), or run in place: `python3 -m dlrun.node COMMAND ...`.

    stage   copy a data set to this node, or to all nodes of a job at once
    out     copy results from this node to a shared file system
    list    evict    clean    verify    manage the data sets of a node

One node:

    python3 node.pyz stage --source /scratch/imagenet --to /local/$USER/dlrun --name imagenet

A job calls the same on every node, with the number of the node; `hosts` has one host a line, the first reads the
source, `secret` is a file of mode 0600 with the job's secret, and `port` is free on all of them:

    srun --ntasks-per-node=1 sh -c 'python3 node.pyz stage --source /scratch/imagenet --to /local/$USER/dlrun \\
        --name imagenet --hosts hosts --index $SLURM_NODEID --port 29411 --secret secret --job $SLURM_JOB_ID --lasting 4h'

Exit status 0: the data set is published here, complete and checked, and its place is on stdout:
DIR/NAME/data, which is as the source is (a single file, or what a glob selects, stands inside it); with
`--strategy pack` DIR/NAME/data/NAME.tar and its index. Exit status 1: it is not, and stderr has the reason; what was
copied stays for the next run. 2: the arguments are not valid. Results:

    python3 node.pyz out --source /local/$USER/results --to /scratch/run17 --update --deadline 5m

At the end of a job `clean --to DIR --job ID` ends its use of the sets and removes those staged with `--keep job`;
what a killed job left is removed when the next one stages. Every command explains itself with `--help`; `--json`
gives one JSON object a line: progress, waiting, lost (a node of the job), and last `done`.
"""
