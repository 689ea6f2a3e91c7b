"""Bundles: read from disk, checked, and refused with all reasons."""
