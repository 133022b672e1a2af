"""OTLP messages <-> model, both directions."""
