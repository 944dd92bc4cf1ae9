"""Launchers: how ranks start and how each learns which one it is.

Begin with `protocol`; every other module is one launcher, and `hydra` has what Intel MPI's shares with MPICH's.
"""
