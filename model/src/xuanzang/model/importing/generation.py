"""Settings of generation that a bundle does not take over, and what takes their place."""

from __future__ import annotations

from collections.abc import Iterator

from xuanzang.model.importing.directory import Directory

# By name: the value that changes nothing, and what to do about another.
_DIFFERENT: dict[str, tuple[object, str]] = {
    "num_beams": (1, "requests set beam_size, and xuanzang export --beam-size its default"),
    "length_penalty": (1.0, "requests set length_penalty, and xuanzang export --length-penalty its default"),
    "no_repeat_ngram_size": (0, "requests set no_repeat_ngram_size"),
    "repetition_penalty": (1.0, "requests set repetition_penalty"),
    "do_sample": (False, "requests set sampling"),
    "max_length": (20, "the limit is 2 × source tokens + 20 unless a request sets max_target_length"),
    "early_stopping": (
        True,
        "searches end once beam_size hypotheses have finished; xuanzang export --stopping does more",
    ),
}


def ignored_settings(directory: Directory) -> Iterator[str]:
    """Name the settings of generation that translations by a bundle do not follow by themselves.

    Args:
        directory: Model directory.

    Returns:
        One sentence for each.
    """
    for name, (usual, instead) in _DIFFERENT.items():
        value = directory.generation_setting(name)
        if value is not None and value != usual:
            yield f"{name} = {value} is not taken over: {instead}"
