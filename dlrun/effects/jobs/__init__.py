"""From a spec to a submitted job on this machine: `prepare` (spec -> plan), `files` (what its directory holds), `submit`.

`rejection` explains a scheduler's refusal; `template_cache` and `node_archive` keep what is slow to make (`cache`).
"""
