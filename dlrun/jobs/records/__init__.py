"""The records of jobs on this machine: files, not a database.

Begin with `jobs` (a job's directory, found by any of its names; `links` to directories elsewhere). `validation` checks each
value that is read, `submitter` is the process that submits a job, `spec_arguments` are the arguments of its submission,
`outcome` is how it ended, `bad_nodes` lists nodes that failed its checks. `clean` removes directories, `lock` locks one.
"""
