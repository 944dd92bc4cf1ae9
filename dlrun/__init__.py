"""dlrun: from a training spec and a site profile to a job that is placed right, and says why."""

__version__ = "0.1.0"
