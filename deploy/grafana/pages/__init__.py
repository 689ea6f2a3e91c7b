"""What the dashboards show, one module each."""
