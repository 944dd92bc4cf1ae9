"""From a spec to a submitted job on this machine.

Begin with `prepare` (spec -> plan), `files` (the files of a job directory) and `submit`; `acceptance` predicts a
scheduler's refusal, `refusal` explains one. `template_cache` and `node_archive` cache results that are slow to compute (`cache`).
"""
