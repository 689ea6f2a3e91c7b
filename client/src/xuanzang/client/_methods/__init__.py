"""Methods of the clients: their requests and responses; streams, progressive translations, documents, glossaries."""
