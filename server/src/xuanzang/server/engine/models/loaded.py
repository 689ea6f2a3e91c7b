"""A bundle made ready for requests: its facts, its tokenisers, its options."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from xuanzang.server.bundles.bundle import Sample
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence
from xuanzang.server.engine.text.codec import TextCodec
from xuanzang.server.engine.types import DecodingOptions, ServedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLimits:
    """What the texts in the options of a request mean to the search."""

    prefix_ids: tuple[int, ...] = ()
    """What every hypothesis begins with."""
    suppressed_sequences: tuple[tuple[int, ...], ...] = ()
    """What no hypothesis may hold."""


NO_LIMITS = TargetLimits()
"""Of requests that say nothing of the target."""


class LoadedModel:
    """One version of a model, without the graphs, which each worker opens for itself. Nothing in it changes."""

    def __init__(self, directory: Path) -> None:
        """Verify a bundle, read its tokenisers and check them against the samples.

        Args:
            directory: Of the bundle.

        Raises:
            BundleError: If the bundle must not be served.
        """
        started = time.monotonic()
        bundle = load_bundle(directory)
        self.bundle = bundle
        self.text = TextCodec(bundle)
        """Into the first of the target languages."""
        self._texts = {code: self.text.into(code) for code in bundle.manifest.target_language_codes}
        self.name = bundle.manifest.model
        self.version = bundle.manifest.version
        self.labels = (self.name, str(self.version))
        """Of its metrics: model, version."""
        reasons = [
            f"the source ids of {sample.source!r} are not those of the certificate"
            for sample in bundle.samples
            if not self._has_ids(sample)
        ]
        if reasons:
            raise BundleError(bundle.directory, reasons)
        self.loop_retry_ngram_size = bundle.manifest.generation_defaults.loop_retry_ngram_size
        """N-gram limit under which a translation that runs in circles is searched once more; 0 for never."""
        self.load_seconds = time.monotonic() - started

    def _has_ids(self, sample: Sample) -> bool:
        # A sample may be into any of the target languages; its ids tell which.
        return any(tuple(text.encode(sample.source)) == sample.source_ids for text in self._texts.values())

    def text_into(self, target_language: str) -> TextCodec:
        """Return what splits, tokenises and joins text for a target language.

        Args:
            target_language: As the manifest spells it, or empty for the first.
        """
        return self._texts[target_language] if target_language else self.text

    def served(self, *, is_default: bool) -> ServedModel:
        """Describe the model to callers.

        Args:
            is_default: Whether requests that name no version get this one.

        Returns:
            Its description.
        """
        manifest = self.bundle.manifest
        defaults = manifest.generation_defaults
        return ServedModel(
            name=self.name,
            version=self.version,
            source_languages=tuple(manifest.source_language_codes),
            target_languages=tuple(manifest.target_language_codes),
            precision=self.bundle.precision,
            manifest_sha256=self.bundle.manifest_sha256,
            is_default=is_default,
            default_options=DecodingOptions(
                beam_size=defaults.beam_size,
                num_hypotheses=1,
                length_penalty=defaults.length_penalty,
                # A text that is not blank is never translated by nothing.
                min_target_length=1,
                max_target_length=None,
            ),
            max_source_length=manifest.dimensions.max_source_length,
            max_target_length=manifest.dimensions.max_target_length,
            needs_target_language=len(manifest.source_format.language_prefix_ids) > 1,
        )

    def sentence(
        self, source_ids: tuple[int, ...], options: DecodingOptions, limits: TargetLimits = NO_LIMITS
    ) -> Sentence:
        """Make what the decoder takes.

        Args:
            source_ids: End token included.
            options: As the caller wants them.
            limits: What they say of the target, as ids.

        Returns:
            The sentence with the options that hold for it.
        """
        resolved = SearchOptions(
            beam_size=options.beam_size,
            num_hypotheses=options.num_hypotheses,
            length_penalty=options.length_penalty,
            min_target_length=options.min_target_length,
            max_target_length=options.max_target_length or self._target_limit(len(source_ids), options, limits),
            coverage_penalty=options.coverage_penalty,
            repetition_penalty=options.repetition_penalty,
            no_repeat_ngram_size=options.no_repeat_ngram_size,
            prefix_ids=limits.prefix_ids,
            suppressed_sequences=limits.suppressed_sequences,
            sampling=options.sampling,
            traced=options.token_details,
        )
        return Sentence(source_ids=list(source_ids), options=resolved)

    def _target_limit(self, source_tokens: int, options: DecodingOptions, limits: TargetLimits) -> int:
        manifest = self.bundle.manifest
        defaults = manifest.generation_defaults
        limit = int(defaults.max_length_factor * source_tokens + defaults.max_length_offset)
        # What the caller asked for makes room for itself and the end token.
        least = max(options.min_target_length, len(limits.prefix_ids) + 1) + 1
        return min(max(limit, least), manifest.dimensions.max_target_length)

    def sample_sentence(self, sample: Sample) -> Sentence:
        """Make what the decoder takes of a sample."""
        options = DecodingOptions(
            beam_size=sample.beam_size,
            num_hypotheses=1,
            length_penalty=sample.length_penalty,
            min_target_length=0,
            max_target_length=None,
        )
        return self.sentence(sample.source_ids, options)
