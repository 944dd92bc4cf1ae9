"""What all commands share: options, printing, tables, progress, error messages. Knows no command.

`options` and `help_page` are the parts of command lines, `spec_command` those of commands that take a spec. `printing`
writes results and messages, `table` prints tables, which `drawing` draws with `rich`; `progress` shows bars
(`progress_bars`) and `status_line` a line below logs; `colour` decides whether output is drawn. `files` writes the files
that users name, `diagnostics` and `failure` show errors, `signals` ends commands.
"""
