"""What a model looked at: attention maps, their pictures, and coverage of the source."""
