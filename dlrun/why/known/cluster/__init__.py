"""Errors of what a cluster puts around a program: the kernel, launchers, shells, environments, clients of services."""
