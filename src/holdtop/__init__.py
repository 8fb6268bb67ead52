"""Hold one accelerator among many jobs, and watch who holds it."""

__version__ = "0.1.0"
