"""The API of DeepL: texts, glossaries, documents."""
