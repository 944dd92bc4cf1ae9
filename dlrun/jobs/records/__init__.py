"""The records of jobs on this machine: files, not a database.

Begin with `jobs` (a job's directory, found by any of its names; `links` to directories elsewhere). `validation` checks each
value that is read, `submission` is the record of a submission, `submitter` and `process_mark` are the process that submits a
job, `spec_arguments` are the arguments of its submission, `outcome` is how it ended, `bad_nodes` lists nodes that failed its
checks. `directories` makes directories, with a list of what dlrun wrote (`ownership`); `contents` removes that, `unfinished`
what a killed process has left; `lock` locks one.
"""
