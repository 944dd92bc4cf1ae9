"""The help page of `dlrun` by the columns of the terminal, from `python -m docs.generate`: click takes longer."""

PAGES = {
    80: """\
Usage: dlrun [OPTIONS] COMMAND [ARGS]...

  Generate and submit deep-learning training jobs on HPC clusters, from a
  training spec and a site profile.

  Ranks are bound to cores, memory, GPUs and NICs. `dlrun explain` shows the
  reason for every value.

Options:
  --version                       Show the version and exit.
  --color [auto|always|never]     Colour of the output; auto: on a terminal.
  --error-format [text|concise|json]
                                  Format of error messages.
  -h, --help                      Show this message and exit.

Run:
  submit         Submit a job from a training spec.
  run            Run a training here: in this shell's allocation, or on this
                 machine.
  init           Write a training spec, from five questions or a batch script.
  plan           Show what would be submitted and its cost, or the job script.
  resubmit       Submit a job again, or only its failed sweep points.
  cancel         Cancel jobs.
  hold           Hold pending jobs, so that they do not start, or release
                 them.

Look:
  status         Show the state of jobs, or list the latest ones.
  logs           Show or follow the logs of a job.
  why            Find out why a job failed, and what to do next.
  usage          Show used cores, memory, GPUs and time: live, or as a page.
  results        Tabulate the runs of a job, or fetch its files.
  diff           Compare two jobs, or a job and today; list the code of one.
  explain        Explain a value of a plan, a variable or a problem code.
  shell          Open a shell, or reach a port, beside a rank of a running
                 job.

Data and placement:
  stage-data     Copy data sets to node-local storage, list them, evict them.
  tune-affinity  Find, print or apply the binding of ranks on a node.
  verify         Run a short job that checks binding and network.
  scale          Measure speed-up and efficiency over node counts.
  tune           Measure which settings make a training faster.

Admin:
  site           List, show, check, detect and write site profiles.
  keys           List the keys of specs or site profiles, or print their
                 schema.
  clean          List and remove the directories of jobs that ended.
  help           Explain exit codes and environment variables.

  Examples:
    dlrun init
    dlrun submit spec.yaml --wait
    dlrun logs latest
""",
    100: """\
Usage: dlrun [OPTIONS] COMMAND [ARGS]...

  Generate and submit deep-learning training jobs on HPC clusters, from a training spec and a site
  profile.

  Ranks are bound to cores, memory, GPUs and NICs. `dlrun explain` shows the reason for every
  value.

Options:
  --version                       Show the version and exit.
  --color [auto|always|never]     Colour of the output; auto: on a terminal.
  --error-format [text|concise|json]
                                  Format of error messages.
  -h, --help                      Show this message and exit.

Run:
  submit         Submit a job from a training spec.
  run            Run a training here: in this shell's allocation, or on this machine.
  init           Write a training spec, from five questions or a batch script.
  plan           Show what would be submitted and its cost, or the job script.
  resubmit       Submit a job again, or only its failed sweep points.
  cancel         Cancel jobs.
  hold           Hold pending jobs, so that they do not start, or release them.

Look:
  status         Show the state of jobs, or list the latest ones.
  logs           Show or follow the logs of a job.
  why            Find out why a job failed, and what to do next.
  usage          Show used cores, memory, GPUs and time: live, or as a page.
  results        Tabulate the runs of a job, or fetch its files.
  diff           Compare two jobs, or a job and today; list the code of one.
  explain        Explain a value of a plan, a variable or a problem code.
  shell          Open a shell, or reach a port, beside a rank of a running job.

Data and placement:
  stage-data     Copy data sets to node-local storage, list them, evict them.
  tune-affinity  Find, print or apply the binding of ranks on a node.
  verify         Run a short job that checks binding and network.
  scale          Measure speed-up and efficiency over node counts.
  tune           Measure which settings make a training faster.

Admin:
  site           List, show, check, detect and write site profiles.
  keys           List the keys of specs or site profiles, or print their schema.
  clean          List and remove the directories of jobs that ended.
  help           Explain exit codes and environment variables.

  Examples:
    dlrun init
    dlrun submit spec.yaml --wait
    dlrun logs latest
""",
}
