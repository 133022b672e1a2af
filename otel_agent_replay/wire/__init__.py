"""Generated protobuf messages and how they map to the model. No I/O."""
