"""Health: the standard service, a listener for it alone, and the probe of containers."""
