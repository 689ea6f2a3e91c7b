"""Faces: services of other APIs, for their clients to call this server; thin adapters of the translation service."""
