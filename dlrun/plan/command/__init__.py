"""The training command of a spec: begin with `command_line`; `expressions` evaluates `{{ }}`, `sweep` makes the points."""
