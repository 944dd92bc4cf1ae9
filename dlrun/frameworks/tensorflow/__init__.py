"""Frameworks that read `TF_CONFIG`.

Begin with `tensorflow`; `mesh_tensorflow` has other roles.
"""
