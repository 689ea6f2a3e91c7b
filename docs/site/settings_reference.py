"""Write docs/settings.md from the settings of server and gateway.

`--check` compares instead, and exits with 1 if the page is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from xuanzang.command.settings import field_texts
from xuanzang.gateway.settings import Settings as GatewaySettings
from xuanzang.server.settings import Settings as ServerSettings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
_INTRODUCTION = """# Settings

Every setting is a flag and an environment variable, the flag in capitals after a prefix: the server reads
`--max-batch-sentences` also from `XUANZANG_MAX_BATCH_SENTENCES`. The flag wins. A switch is `--name` or `--no-name`,
its variable `true` or `false`. [Operations](operations.md) and [Gateway](gateway.md) explain their use. `python
docs/site/settings_reference.py` writes this page from the code; do not edit it.
"""
_PARTS: tuple[tuple[str, type[BaseSettings]], ...] = (("Server", ServerSettings), ("Gateway", GatewaySettings))
_BOUNDS = {annotated_types.Ge: ("≥", "ge"), annotated_types.Gt: (">", "gt"), annotated_types.Le: ("≤", "le")}


def page() -> str:
    """Return the text of the page."""
    parts = (_part(title, settings) for title, settings in _PARTS)
    return "\n".join([_INTRODUCTION, *parts])


def _part(title: str, settings: type[BaseSettings]) -> str:
    prefix = settings.model_config["env_prefix"]
    lines = [
        f"## {title}\n",
        f"Variables begin with `{prefix}`.\n",
        "| flag | default, range | meaning |",
        "|---|---|---|",
    ]
    texts = field_texts(settings)
    for name, field in sorted(settings.model_fields.items()):
        cells = (
            f"`--{name.replace('_', '-')}`",
            "; ".join((_default(field.get_default(call_default_factory=True, validated_data={})), *_range(field))),
            " ".join(texts.get(name, "").split()).replace("|", "\\|"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _default(value: Any) -> str:
    if value is None or value in ("", ()):
        return "–"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict | list | tuple | frozenset):
        return f"`{','.join(map(str, value))}`" if value else "–"
    return f"`{value}`"


def _range(field: FieldInfo) -> Iterator[str]:
    annotation = field.annotation
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is Literal:
            yield ", ".join(f"`{value}`" for value in get_args(part))
    bounds = {type(each): each for each in field.metadata}
    if (low := bounds.get(annotated_types.Ge)) and (high := bounds.get(annotated_types.Le)):
        yield f"{low.ge}–{high.le}"
        return
    for kind, (sign, name) in _BOUNDS.items():
        if kind in bounds:
            yield f"{sign} {getattr(bounds[kind], name)}"


def main(arguments: list[str]) -> int:
    """Write the page, or compare it.

    Args:
        arguments: Those of the command.
    """
    text = page()
    if arguments == ["--check"]:
        if PAGE.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write("docs/settings.md is out of date: run `python docs/site/settings_reference.py`\n")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
