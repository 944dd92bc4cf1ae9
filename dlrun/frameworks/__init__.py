"""Frameworks: which roles a job has and what each process is told; imports no training library.

Begin with `protocol`. Each module is one framework; families share a folder (`torch`, `mpi`, `tensorflow`, `spark`), and
`common` has what several need.
"""
