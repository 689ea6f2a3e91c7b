"""A server under load for hours: `python -m benchmarks.soak.soak`, and what calls leave behind."""
