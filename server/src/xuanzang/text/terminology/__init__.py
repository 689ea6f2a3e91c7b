"""Terms and protected texts: found in a source, put into it, and held in a translation."""
