"""Arguments of the commands, and what they describe: clients, options, terms."""
