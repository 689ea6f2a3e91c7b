"""The engine and others on models of other projects (`comparison`), and the import of a model."""
