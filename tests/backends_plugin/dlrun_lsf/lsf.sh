# shellcheck shell=bash
dlrun_lsf_hosts() { # the granted hosts: LSF's file has a line for each slot
  awk '!seen[$0]++' "$LSB_DJOB_HOSTFILE"
}
