"""Output of commands on terminals and elsewhere.

`table` prints tables, which `terminal` draws with `rich`; `progress` shows bars (`progress_bars`) and `status_line` a line
below logs. `colour` decides whether output is drawn. `plan`, `usage` and `top_screen` are the pages of their commands.
"""
