"""Pairs made of pairs: what a translation must keep, and random spans of it."""
