"""The services: translation, with explanations and glossaries, administration of models, and health."""
