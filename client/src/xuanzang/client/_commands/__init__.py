"""The subcommands of `xuanzang`."""
