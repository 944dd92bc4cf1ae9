"""Parts used by several frameworks: `defaults` (default parts of the protocol), `agent` (a framework's own launcher,
`agent: true`) and `nested_launcher_check` (a launcher as the training command).
"""
