"""Interceptors that run around every RPC: telemetry, errors to statuses, the gate. None of them logs user text."""
