"""Frameworks over torch.distributed.

Begin with `env_ranks` (the rendezvous that all of them read) and `torch`; the others build on it.
"""
