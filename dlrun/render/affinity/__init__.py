"""Placements as text: tables, pictures, and the words of every tool that can apply one."""
