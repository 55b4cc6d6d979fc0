"""Twelve incidents on a real kernel, and whether the first screen of `why` ends each of them (README.md)."""
