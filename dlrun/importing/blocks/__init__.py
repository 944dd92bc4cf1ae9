"""Blocks of a script that the spec has in another form: loops and arrays as sweeps, conditions as the branch that runs."""
