"""Frozen dataclasses of everything that dlrun reads and decides, and their arithmetic; standard library only.

Begin with `spec`, `site` and `plan`; `topology` and `placement` describe a node and its ranks. `keys` and
`record` define the dataclasses, `units`, `hostlist`, `cpuset` and `text` their value types, `json_codec` their JSON.
"""
