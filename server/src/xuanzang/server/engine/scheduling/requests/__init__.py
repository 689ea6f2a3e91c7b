"""Requests: what is scheduled, what is recorded of it, and how its texts are made."""
