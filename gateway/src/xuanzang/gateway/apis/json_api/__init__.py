"""The API of the gateway itself: JSON, with problems of RFC 9457."""
