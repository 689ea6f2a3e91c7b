"""HTTP in front of a xuanzang server: other products' APIs, and its own in JSON."""
