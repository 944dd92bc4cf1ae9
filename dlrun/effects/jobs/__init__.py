"""From a spec to a submitted job on this machine.

Begin with `prepare` (spec -> plan), `files` (what a job directory holds) and `submit`; `rejection` explains a
scheduler's refusal. `template_cache` and `node_archive` keep what is slow to make (`cache`).
"""
