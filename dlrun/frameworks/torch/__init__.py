"""Frameworks over torch.distributed: `env_ranks` (the rendezvous that all of them read), `torch`, and what builds on it."""
