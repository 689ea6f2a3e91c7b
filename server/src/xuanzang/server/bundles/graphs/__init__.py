"""Graphs of a bundle and their weights: checked before they are opened, and read for what they compute."""
