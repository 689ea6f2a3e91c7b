"""Texts with tags: parsed to blocks of plain text, whose tags are put back around the words they belong to."""
