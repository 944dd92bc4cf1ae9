"""Frameworks that read `TF_CONFIG`: `tensorflow`, and Mesh TensorFlow, whose processes have other roles."""
