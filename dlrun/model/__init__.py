"""Frozen data and its arithmetic; standard library only.

Begin with `spec`, `site` and `plan`; `topology` and `placement` are a node and its ranks. `keys` and `record` make
dataclasses of them, `units`, `hostlist`, `cpuset` and `text` are their values, `json_codec` writes and reads them.
"""
