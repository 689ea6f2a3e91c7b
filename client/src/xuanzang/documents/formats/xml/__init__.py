"""Formats made of XML: Word and XLIFF, and the tokens that both are read as."""
