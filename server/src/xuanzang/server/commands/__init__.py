"""Commands beside the server: API keys, and models of a hub."""
