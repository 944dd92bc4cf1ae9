"""Frameworks whose ranks are started by an MPI launcher.

Begin with `mpi` (any MPI program, and libraries that need no more); the others add to it.
"""
