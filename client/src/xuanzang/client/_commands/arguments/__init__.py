"""Arguments of the commands, and their values: clients, options, terms."""
