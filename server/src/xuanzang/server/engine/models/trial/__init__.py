"""Trials of unknown bundles in another process, which they may end or keep busy without harm."""
