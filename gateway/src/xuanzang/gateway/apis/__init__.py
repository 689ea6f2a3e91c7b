"""The APIs: each reads parameters in its own way, and says in its own way what went wrong."""
