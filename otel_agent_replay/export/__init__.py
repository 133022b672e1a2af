"""Out of the process: the journal on the host's side, assembling and sealing on the other."""
