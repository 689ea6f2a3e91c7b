"""What can go wrong between a hub and the folder of the models."""

from __future__ import annotations


class HubError(Exception):
    """A model that cannot be pulled or pushed; the message says why and, if it can, what to do."""
