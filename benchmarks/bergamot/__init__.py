"""Students of Firefox Translations by this engine and by the one that Firefox has."""
