"""Parts used by several frameworks: `defaults` (default parts of the protocol), `agents` (the frameworks' own
launchers, `agent: true`) and `nested_launcher_check` (a launcher as the training command).
"""
