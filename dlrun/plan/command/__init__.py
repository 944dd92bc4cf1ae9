"""The training command of a spec: `command_line` first; `expressions` evaluates `{{ }}` in it, `sweep` makes its points."""
