"""The version of this package, which is that of the service."""

__version__ = "1.0.0"
