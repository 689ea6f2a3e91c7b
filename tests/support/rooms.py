"""The distributions of this repository."""

ROOMS = (
    "proto",
    "kernels",
    "model",
    "export",
    "text",
    "server",
    "documents",
    "client",
    "hub",
    "loadtest",
    "batch",
    "gateway",
)
