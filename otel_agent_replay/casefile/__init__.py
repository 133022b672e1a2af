"""The file `case.yaml`: its schema, how it is read, and the words that a component run and a gate both take from it.

Pure but for reading a case's own files. What a section means is decided by those who use it.
"""
