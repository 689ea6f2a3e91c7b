"""How a translation was found: values, the way to the wire and back, and the command."""
