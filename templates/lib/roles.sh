# shellcheck shell=bash disable=SC2154,SC2034 # variables of the page's own part
# Several programs in one job: the job runs roles.py, which runs the job.sh of each role on its part of the nodes.

# What marks the processes of a node is another for each role, since roles may share it.
_dlrun_of_role=${DLRUN_CHOSEN_HOSTS:+-${DLRUN_JOB_DIR##*/}}

dlrun_roles() { # [START...]: become roles.py; START begins a program on a host, to find a free port there
  exec bash -p "$DLRUN_JOB_DIR/lib/python.sh" "$DLRUN_JOB_DIR/roles.py" "${_dlrun_granted%,}" "$@"
}

dlrun_role_hosts() { # in the job of a role: print its hosts, which roles.py has chosen
  if [[ -z ${DLRUN_CHOSEN_HOSTS-} ]]; then echo 'dlrun: the job of a role runs inside the job of all roles: submit that one' >&2 && return 1; fi
  printf '%s\n' "${DLRUN_CHOSEN_HOSTS//,/$'\n'}"
}
