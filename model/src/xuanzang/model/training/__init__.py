"""Training: teacher forcing, averaged weights, validation, exact resume."""
