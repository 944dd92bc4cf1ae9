"""`dlrun scale`: scaling studies.

`command` is the command line, `submit` submits the missing runs through `submitters` (this host or a login node), `measured`
reads their throughput. Pure: `table` (speed-up and efficiency), `estimate`, `compare`, and as text `texts`; `picture` needs
matplotlib, `output` prints. The record of a study is `dlrun.jobs.queue.study`.
"""
