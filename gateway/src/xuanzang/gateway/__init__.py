"""HTTP in front of a xuanzang server: DeepL's and LibreTranslate's APIs, and JSON of its own."""
