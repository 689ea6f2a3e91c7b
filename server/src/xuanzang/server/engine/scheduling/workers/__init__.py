"""Threads that take sentences from the queue and run the models."""
