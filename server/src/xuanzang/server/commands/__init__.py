"""Commands beside the server: API keys, the models of a running server, quality heads."""
