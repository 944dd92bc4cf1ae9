"""Launchers: the commands that start ranks, and the variables from which each rank reads its number.

Begin with `protocol`; every other module is one launcher; `hydra` has the arguments of MPICH and Intel MPI.
"""
