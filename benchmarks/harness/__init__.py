"""Parts that benchmarks share: processes and their figures, the bundled model behind a server, loads, light calls."""
