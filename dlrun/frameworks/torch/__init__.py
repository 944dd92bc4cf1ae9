"""Frameworks over torch.distributed.

Begin with `env_ranks` (the `env://` rendezvous common to all) and `torch`.
"""
