"""The face of Google Cloud Translation v3: its messages are those of the package google-cloud-translate."""
