"""The command line: one file a command, nothing imports it.

Exit codes: 0 same, 1 departed or different, 2 usage, 125 cannot judge.
"""
