"""What frameworks share: `defaults` (the parts of the protocol that most need nothing special for), `agent` (a framework's
own agent, `agent: true`) and `nested_launcher_check` (a launcher as the training command).
"""
