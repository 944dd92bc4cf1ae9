"""Launchers: how ranks start and how each learns which one it is."""
