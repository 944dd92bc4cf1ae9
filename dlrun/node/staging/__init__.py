"""One `stage` command on a node: the source is surveyed, compared with the published set, copied, and published."""
