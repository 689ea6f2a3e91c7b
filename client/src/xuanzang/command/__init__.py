"""The one program `xuanzang`: its commands come from the rooms that are installed, and read their arguments one way."""
