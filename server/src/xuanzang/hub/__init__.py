"""Models from a hub: which there are, how one comes here, and how a bundle of one's own gets there."""
