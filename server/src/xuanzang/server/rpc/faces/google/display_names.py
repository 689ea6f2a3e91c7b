"""Names of languages in any language, as the Unicode CLDR has them."""

from __future__ import annotations

from babel import Locale, UnknownLocaleError

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError

_MAX_CODE_CHARACTERS = 64


def display_locale(code: str) -> Locale | None:
    """Find the language to name languages in.

    Args:
        code: BCP-47 code, or nothing.

    Returns:
        What names languages; None if they are not to be named.

    Raises:
        InvalidInputError: There are no names in that language.
    """
    locale = _locale(code)
    if code and locale is None:
        description = "must be the BCP-47 code of a language that has names for others, such as en"
        raise InvalidInputError([FieldViolation(field="display_language_code", description=description)])
    return locale


def display_name(code: str, locale: Locale | None) -> str:
    """Name a language.

    Args:
        code: BCP-47 code.
        locale: Language of the name; None for no name.

    Returns:
        Its name, or its code if it has none; empty without a language to name it in.
    """
    if locale is None:
        return ""
    named = _locale(code)
    return (named and named.get_display_name(locale)) or code


def _locale(code: str) -> Locale | None:
    try:
        return Locale.parse(code, sep="-") if 0 < len(code) <= _MAX_CODE_CHARACTERS else None
    except (UnknownLocaleError, ValueError):
        return None
