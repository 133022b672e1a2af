"""Out of the process: the journal on the host's side, assembling and sealing on the other.

Who seals also reads: a run as it stands while its end still lies in the journal (`unsealed`), and the lake with its
journal when hours of it go (`retaining`).
"""
