"""Translation in the process of the caller; `xuanzang.server` has the names that callers use."""
