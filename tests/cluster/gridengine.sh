#!/bin/bash
# gridengine.sh TABLE SLOTS [QUEUE LIMIT]...: hosts (name, slots, GPUs, memory in MiB), parallel environments up to SLOTS, queues

set -e; cd "$(mktemp -d)"
qconf -as login
qconf -sc | grep -v '^#' > complexes
sed -i -E 's/^(h_vmem +h_vmem +MEMORY +<= +YES +)NO +0/\1YES 1G/' complexes # consumables with a default: 0 would be a limit of 0
echo 'gpu gpu INT <= YES YES 0 0' >> complexes
echo 'exclusive excl BOOL EXCL YES YES 0 1000' >> complexes
qconf -Mc complexes
while read -r host slots gpus memory; do
  qconf -ah "$host"; qconf -as "$host"
  printf '%s\n' "hostname $host" 'load_scaling NONE' "complex_values slots=$slots,gpu=$gpus,h_vmem=${memory}M,exclusive=true" \
    'user_lists NONE' 'xuser_lists NONE' 'projects NONE' 'xprojects NONE' 'usage_scaling NONE' 'report_variables NONE' > host
  qconf -Ae host
done < "$1"
printf 'group_name @allhosts\nhostlist %s\n' "$(cut -d' ' -f1 "$1" | tr '\n' ' ')" > group
qconf -Ahgrp group
environments=
for ((slots = 1; slots <= $2; slots++)); do
  printf '%s\n' "pe_name mpi-$slots" 'slots 9999' 'user_lists NONE' 'xuser_lists NONE' 'start_proc_args NONE' 'stop_proc_args NONE' \
    "allocation_rule $slots" 'control_slaves TRUE' 'job_is_first_task FALSE' 'urgency_slots min' 'accounting_summary FALSE' \
    'qsort_args NONE' > environment
  qconf -Ap environment
  environments+=" mpi-$slots"
done
shift 2
while (($#)); do
  qconf -sq | sed -E "s/^qname.*/qname $1/; s/^hostlist.*/hostlist @allhosts/; s/^slots .*/slots 64/; s/^pe_list.*/pe_list$environments/
    s/^load_thresholds.*/load_thresholds NONE/; s/^h_rt .*/h_rt $2/" > queue
  qconf -Aq queue
  shift 2
done
qconf -ssconf | sed -E 's/^schedule_interval.*/schedule_interval 0:0:1/; s/^flush_(submit|finish)_sec.*/flush_\1_sec 1/' > scheduler
qconf -Msconf scheduler
qconf -sconf | sed -E 's/^load_report_time.*/load_report_time 0:0:5/; s/^max_unheard.*/max_unheard 0:0:20/; s/flush_time=[0-9:]*/flush_time=00:00:01/' > global
qconf -Mconf global
