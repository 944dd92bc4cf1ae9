"""The training command: `expressions` evaluates `{{ }}`, `command_line` writes the command, `sweep` its runs."""
