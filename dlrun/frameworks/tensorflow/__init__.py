"""Frameworks that read `TF_CONFIG`.

Begin with `tensorflow`; the processes of Mesh TensorFlow have other roles.
"""
