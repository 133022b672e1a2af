"""The version of this package; `pyproject.toml` takes it from here.

Every recording names it. Asking the installation for it takes 20 ms of a process's start: it imports the reading of
archives and of mail, which packages' metadata is written as.
"""

VERSION = "0.1.0"
"""MAJOR.MINOR.PATCH."""
