"""Contents of the dashboards, one module each."""
