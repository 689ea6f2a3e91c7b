"""Inspection of attention: maps, their pictures, and coverage of the source."""
