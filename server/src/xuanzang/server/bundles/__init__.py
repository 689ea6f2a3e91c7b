"""What may be loaded: bundles read from disk, checked, and handed over as plain facts."""
