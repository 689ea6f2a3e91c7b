"""Numbers of a text: read as values, and written in Chinese and English."""
