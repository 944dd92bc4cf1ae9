"""Scaling studies: `study` (the directory and its measurements), `places` (where its runs go), `submit`."""
