"""Sites: `dlrun site` and `dlrun verify`.

`command` is the command line of `dlrun site`, with `listing`, `draft`, `questions` and `verdicts`. `profile` writes and checks
profiles, `imports` reads those of other tools, `testing` compares a profile with the cluster by small jobs, `verify` compares
the ranks of a job with its plan.
"""
