"""Frameworks: the roles of a job and the variables of each process; imports no training library.

Begin with `protocol`. Each module is one framework; families share a folder (`torch`, `mpi`, `tensorflow`, `spark`), and
`common` has what several need.
"""
