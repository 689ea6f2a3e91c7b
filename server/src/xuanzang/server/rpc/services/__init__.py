"""The services: translation, with explanations and glossaries, and administration of models."""
