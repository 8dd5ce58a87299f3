"""Live device-memory tracking for Tenstorrent accelerators."""

__version__ = "0.1.0"
