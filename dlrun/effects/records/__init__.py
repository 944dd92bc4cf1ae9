"""What this machine knows of every job: its directory (`jobs`), how it ended (`outcome`), nodes that failed it (`bad_nodes`).

Files, no database: what a job writes itself lies beside what dlrun writes down about it.
"""
