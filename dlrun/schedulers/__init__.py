"""Schedulers: build directives and argument lists, parse what the clients print; run nothing."""
