"""Frameworks whose ranks MPI starts: `mpi` first (any MPI program, and libraries that need no more), then the others."""
