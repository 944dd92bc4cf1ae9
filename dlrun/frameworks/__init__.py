"""Frameworks: which roles a job has and what each process is told; imports no framework."""
