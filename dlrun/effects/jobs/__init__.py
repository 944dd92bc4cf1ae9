"""From a spec to a submitted job on this machine.

Begin with `prepare` (spec -> plan), `files` (the files of a job directory) and `submit`; `rejection` explains a
scheduler's refusal. `template_cache` and `node_archive` cache results that are slow to compute (`cache`).
"""
