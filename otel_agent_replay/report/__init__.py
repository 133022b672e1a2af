"""Results for eyes and machines: terminal, JSON, Markdown. Takes data in, touches no storage.

Modules that draw load rich; importing this package loads nothing heavy.
"""
