"""Commands beside the server: API keys, and the probe of its health."""
