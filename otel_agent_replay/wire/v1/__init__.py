"""Generated from proto/: the messages of the journal and the lake. `make proto` writes it."""
