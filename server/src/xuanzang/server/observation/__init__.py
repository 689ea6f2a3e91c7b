"""What operators can see of single RPCs: traces and the access log."""
