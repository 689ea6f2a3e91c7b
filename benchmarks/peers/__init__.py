"""The engine beside others on models of other projects: `make peers`, and the way of an imported model."""
