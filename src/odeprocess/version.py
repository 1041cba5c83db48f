"""The version, read by the build and by saved models."""

__version__ = "0.1.0"
