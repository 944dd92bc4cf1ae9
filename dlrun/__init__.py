"""dlrun: from a training spec and a site profile to a job with correct placement, each value with its reason."""

__version__ = "0.2.0"
