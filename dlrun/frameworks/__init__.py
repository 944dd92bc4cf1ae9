"""Frameworks: the roles of a job and the variables of each process; no training library is imported.

Begin with `protocol`. Each module is one framework; families share a folder (`torch`, `mpi`, `tensorflow`, `spark`), and
`common` has the parts used by several.
"""
