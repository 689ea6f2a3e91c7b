"""Models that are loaded, and which of them a request means."""
