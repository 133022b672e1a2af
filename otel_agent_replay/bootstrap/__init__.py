"""Holds the `sitecustomize` shim that a recorded or replayed child process starts with."""
