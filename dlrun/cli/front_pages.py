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
  init           Write a first training spec, from five questions.
  import         Convert a batch script to a training spec.
  plan           Show what would be submitted, and what it would cost.
  render         Print the job script, or write the whole job directory.
  resubmit       Submit a job again, or only its failed sweep points.
  cancel         Cancel jobs.
  hold           Hold pending jobs, so that they do not start.
  release        Release held jobs.

Look:
  list           List your jobs.
  status         Show the state of jobs.
  top            Watch a running job: cores, memory, GPUs, metrics.
  logs           Show or follow the logs of a job.
  why            Find out why a job failed, and what to do next.
  usage          Show used cores, memory, GPUs and time, and what to change.
  results        Tabulate the runs of a job: parameters, state, time, metrics.
  report         Write an HTML page about a job: plan, timeline, results,
                 logs.
  diff           Compare two jobs, or a job and today: plan, code,
                 environment.
  code           List the code of a job, or write it to a directory.
  explain        Explain a value of a plan, a variable or a problem code.
  fetch          Copy a remote job's logs and state from its login node.
  shell          Open a shell, or run a command, beside a rank of a running
                 job.
  tunnel         Reach a port of a running job's node from this machine.

Data and placement:
  stage-data     Copy data sets to node-local storage, list them, evict them.
  tune-affinity  Find, print or apply the binding of ranks on a node.
  verify         Run a short job that checks binding and network.
  scale          Measure speed-up and efficiency over node counts.
  tune           Measure which settings make a training faster.

Admin:
  site           List, show, check, detect and write site profiles.
  keys           List the keys of training specs or site profiles.
  schema         Print the JSON Schema of training specs or site profiles.
  clean          List and remove the directories of jobs that ended.
  completion     Print the shell completion script.
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
  init           Write a first training spec, from five questions.
  import         Convert a batch script to a training spec.
  plan           Show what would be submitted, and what it would cost.
  render         Print the job script, or write the whole job directory.
  resubmit       Submit a job again, or only its failed sweep points.
  cancel         Cancel jobs.
  hold           Hold pending jobs, so that they do not start.
  release        Release held jobs.

Look:
  list           List your jobs.
  status         Show the state of jobs.
  top            Watch a running job: cores, memory, GPUs, metrics.
  logs           Show or follow the logs of a job.
  why            Find out why a job failed, and what to do next.
  usage          Show used cores, memory, GPUs and time, and what to change.
  results        Tabulate the runs of a job: parameters, state, time, metrics.
  report         Write an HTML page about a job: plan, timeline, results, logs.
  diff           Compare two jobs, or a job and today: plan, code, environment.
  code           List the code of a job, or write it to a directory.
  explain        Explain a value of a plan, a variable or a problem code.
  fetch          Copy a remote job's logs and state from its login node.
  shell          Open a shell, or run a command, beside a rank of a running job.
  tunnel         Reach a port of a running job's node from this machine.

Data and placement:
  stage-data     Copy data sets to node-local storage, list them, evict them.
  tune-affinity  Find, print or apply the binding of ranks on a node.
  verify         Run a short job that checks binding and network.
  scale          Measure speed-up and efficiency over node counts.
  tune           Measure which settings make a training faster.

Admin:
  site           List, show, check, detect and write site profiles.
  keys           List the keys of training specs or site profiles.
  schema         Print the JSON Schema of training specs or site profiles.
  clean          List and remove the directories of jobs that ended.
  completion     Print the shell completion script.
  help           Explain exit codes and environment variables.

  Examples:
    dlrun init
    dlrun submit spec.yaml --wait
    dlrun logs latest
""",
}
