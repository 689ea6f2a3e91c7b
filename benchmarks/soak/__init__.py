"""A server under load for hours: `make soak`, and what calls leave behind."""
