"""One `stage` command on a node: the source is surveyed, compared with the published set, copied, and published.

Read in this order: `request` (what is asked, and the lock), `survey_source`, `compare`, `copying`, `publishing`.
"""
