"""Frameworks whose ranks MPI starts.

Begin with `mpi` (any MPI program, and libraries that need no more); the others add to it. `ccl_workers` places oneCCL's.
"""
