"""A bundle ready for requests: its facts, tokenisers, open graphs and metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.bundle import Bundle, Sample
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import FileState, read_limited
from xuanzang.server.bundles.graph_interface import inspects_rows
from xuanzang.server.bundles.lexicon import LEXICON
from xuanzang.server.bundles.manifest import MAX_FILE_BYTES
from xuanzang.server.bundles.repository import read_bundle, read_outline
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, SearchRules, Sentence
from xuanzang.server.engine.decoding.phrase_automaton import PhraseAutomaton, RequiredPhrases
from xuanzang.server.engine.hardware import default_workers
from xuanzang.server.engine.quality import Estimator, QualityEstimator, unknown_features
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.runtime.shapes import CacheShape
from xuanzang.server.engine.settings import UNLIMITED, EngineSettings
from xuanzang.server.engine.types import DecodingOptions, ServedModel
from xuanzang.server.metrics import Metrics
from xuanzang.text.codec import SentenceFormat, TextCodec
from xuanzang.text.language_codes import primary
from xuanzang.text.lexicon import Lexicon
from xuanzang.text.scripts import foreign_scripts
from xuanzang.text.tokenizer import Processors, Side, TokenizerError, open_tokenizers
from xuanzang.text.traditional import with_traditional
from xuanzang.text.words import TargetPhrases


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConstraints:
    """Texts in the options of a request, as target ids."""

    prefix_ids: tuple[int, ...] = ()
    suppressed_sequences: tuple[tuple[int, ...], ...] = ()
    phrases: PhraseAutomaton | None = None
    expected_phrases: RequiredPhrases | None = None
    """Phrases that the source suggests, to be required only of a second search; not together with `phrases`."""
    phrase_tokens: int = 0
    """Tokens that the phrases have at the least."""


# Target tokens that callers may force for any source: little work, and translations of a word may be explanations.
_ALWAYS_JUSTIFIED = 64

UNCONSTRAINED = TargetConstraints()
# Tokenisers and the structures of onnxruntime, and what each worker keeps for its batches; measured with graphs of 15
# million parameters.
_MEMORY_BESIDE_FILES = 6 * 10**6
_MEMORY_OF_A_WORKER = 2 * 10**6


class LoadedModel:
    """One version of a model. Nothing in it changes while its graphs are open, so threads share it.

    A resting model has only its manifest until it is loaded again.
    """

    def __init__(
        self,
        directory: Path,
        metrics: Metrics,
        settings: EngineSettings | None = None,
        *,
        packed_weights: Path | None = None,
        processors: Processors | None = None,
        rests: bool = False,
    ) -> None:
        """Read a bundle, and load it unless it `rests` at first.

        Without settings the graphs are opened later, by `open`, or never. `processors`: SentencePiece models that it
        shares with other models; None for its own.

        Raises:
            BundleError: The bundle must not be served.
            ProviderUnavailableError: The provider is cuda, and onnxruntime comes without.
        """
        self._directory, self._all_metrics = directory, metrics
        self._settings, self._packed_weights = settings, packed_weights
        self._processors = processors or Processors()
        self._known_states: frozenset[tuple[str, FileState]] = frozenset()
        """States of the files whose contents a load has checked, while they are unchanged."""
        self._token_classes: npt.NDArray[np.int8] | None = None
        """Classes of the target's tokens, once the model was loaded: they take longer to compute than to keep."""
        self.is_resting = True
        """True if it must be loaded before it translates."""
        self.quality_estimator: Estimator | None = None
        """Estimator of how far to trust translations; None if the bundle has no quality head."""
        if rests:
            self._describe(read_outline(directory))
        else:
            self.load()

    def load(self) -> None:
        """Verify the bundle, read its tokenisers, check them against the samples, and open the graphs.

        The digest of the weights, the graphs and the tokenisers of a large model take about a second each: they share
        the cores.

        Raises:
            BundleError: The bundle must not be served, or another one has taken its place.
            ProviderUnavailableError: The provider is cuda, and onnxruntime comes without.
        """
        started = time.monotonic()
        described = getattr(self, "bundle", None)
        with ThreadPoolExecutor(2, thread_name_prefix="opening") as beside:
            bundle, require_weights = read_bundle(self._directory, beside, outline=described, known=self._known_states)
            if described is None:
                self._describe(bundle)
            elif bundle.manifest_sha256 != described.manifest_sha256:
                raise BundleError(bundle.directory, ["another bundle has taken its place, which is not served yet"])
            self.bundle = bundle
            self.quality_estimator = self._open_quality_head()
            settings = self._settings
            opening = beside.submit(self.open, settings, self._packed_weights) if settings else None
            self._read_tokenizers()
            require_weights()
            if opening:
                opening.result()
        self._known_states = frozenset(bundle.settled_states)
        self.is_resting = False
        self.metrics.model_loaded.value = 1
        self.metrics.model_load_duration_seconds.value = time.monotonic() - started

    def _describe(self, bundle: Bundle) -> None:
        """Take over the facts of the manifest, which stay when the model rests."""
        self.bundle = bundle
        self.described_at = time.time()
        """Time at which the manifest was read, in seconds since 1970."""
        self.name = bundle.manifest.model
        self.version = bundle.manifest.version
        self.labels = (self.name, str(self.version))
        """Values of the metrics' labels model and version."""
        languages = *bundle.manifest.source_language_codes, *bundle.manifest.target_language_codes
        self.foreign_scripts = foreign_scripts(languages)
        """Scripts that none of its languages is written in."""
        self.metrics = self._all_metrics.models.of(self.labels)
        defaults = bundle.manifest.generation_defaults
        self.repetition_retry_ngram_size = defaults.loop_retry_ngram_size
        """N-gram limit under which a repetition is searched once more; 0 for never."""
        self._rules = SearchRules(
            none_better=defaults.stopping == manifest_pb2.STOPPING_NONE_BETTER,
            shrinks=defaults.stopping == manifest_pb2.STOPPING_SHRINKING_BEAM,
            forces_end=defaults.forces_end,
        )
        self._max_target_length = bundle.manifest.dimensions.max_target_length
        # Factor and offset of the limit on target tokens that grows with the source.
        self._length_line = defaults.max_length_factor, defaults.max_length_offset
        self.limits = UNLIMITED
        """The model's limits, set by `open`."""
        self.max_cache_bytes: int | None = None
        """Bytes that the keys and values of the model may take; None for no limit."""
        self._max_content_characters = 0
        sizes = {file.name: file.size_bytes for file in bundle.manifest.files}
        self.weights_bytes = sizes.get(bundle.manifest.weights, 0)
        self._bytes_of_files = sum(sizes.values())
        self.memory_bytes = self._bytes_of_files + _MEMORY_BESIDE_FILES
        """Estimated bytes of a loaded model, keys and values of long texts not counted."""
        self._cache_shape: CacheShape | None = None
        self._sessions: Sessions | None = None
        self._uses_shortlist = False
        if self._settings:
            self._limit(self._settings)

    def _read_tokenizers(self) -> None:
        """Read the tokenisers; refuse any that give the samples other ids than at export."""
        self.codec = open_codec(self.bundle, self._token_classes, self._processors)
        """Codec between the first of the languages."""
        self._token_classes = self.codec.target_phrases.classes
        self._codecs = {("", ""): self.codec}
        reasons = [
            f"the source ids of {sample.source!r} are not those of the certificate"
            for sample in (() if self.bundle.is_known else self.bundle.samples)
            # A sample may be between any of the languages; its ids tell which.
            if not any(tuple(codec.encode(sample.source)) == sample.source_ids for codec in self._framings())
        ]
        self.lexicon = self._open_lexicon()
        """Translations of first words; None if the bundle has no lexicon."""
        if reasons:
            raise BundleError(self.bundle.directory, reasons)

    def _open_lexicon(self) -> Lexicon | None:
        entries, manifest = self.bundle.lexicon, self.bundle.manifest
        if not entries:
            return None
        reasons = [
            f"{LEXICON}: the model cannot write {target!r}"
            for target in entries.values()
            if not self.bundle.is_known and not self.codec.can_write(self.codec.encode_target(target))
        ]
        if len(manifest.source_language_codes) > 1 or len(manifest.target_language_codes) > 1:
            reasons = [f"{LEXICON} is for models of one pair of languages"]
        if reasons:
            raise BundleError(self.bundle.directory, reasons)
        return Lexicon(entries, writes_chinese=primary(manifest.target_language_codes[0]) == "zh")

    def _open_quality_head(self) -> QualityEstimator | None:
        head = self.bundle.quality_head
        if head is None:
            return None
        if unknown := unknown_features(head):
            reason = f"the quality head needs {', '.join(unknown)}, which this server does not measure"
            raise BundleError(self.bundle.directory, [reason])
        return QualityEstimator(head)

    def _framings(self) -> Iterator[TextCodec]:
        """Return a codec for each way to name languages in the source, the first of all first."""
        source_format = self.bundle.manifest.source_format
        for source in source_format.source_language_ids or ("",):
            for target in source_format.language_prefix_ids or ("",):
                yield self.codec.between(source, target)

    def open(self, settings: EngineSettings, packed_weights: Path | None = None) -> None:
        """Open the graphs, which all workers share; `packed_weights`: folder of what other processes share as well.

        Raises:
            BundleError: The weights are larger than the model may be, or a graph cannot be opened or does not fit the
                manifest.
            ProviderUnavailableError: The provider is cuda, and onnxruntime comes without.
        """
        self._limit(settings)
        self._sessions = Sessions(
            self.bundle,
            provider=settings.provider,
            intra_op_threads=settings.intra_op_threads,
            shortlist=self._uses_shortlist,
            kernels=settings.kernels,
            packed_weights=packed_weights,
        )
        self._cache_shape = self._sessions.cache_shape

    def _limit(self, settings: EngineSettings) -> None:
        """Take over the limits of the model; refuse weights that leave no memory for keys and values, or exceed it."""
        in_all_with_shortlist = "*" in settings.shortlists and self.bundle.has_shortlist
        self._uses_shortlist = self.name in settings.shortlists or in_all_with_shortlist
        workers = settings.workers or default_workers(settings.provider, settings.intra_op_threads)
        self.memory_bytes = self._bytes_of_files + _MEMORY_BESIDE_FILES + workers * _MEMORY_OF_A_WORKER
        available = settings.on_demand.memory_bytes if settings.on_demand else None
        if available and self.memory_bytes > available:
            reason = f"it takes {self.memory_bytes} bytes of memory, and --model-memory allows {available} in all"
            raise BundleError(self.bundle.directory, [reason])
        self.limits = settings.limits_of(self.name)
        self._max_content_characters = settings.max_content_characters
        memory = self.limits.memory_bytes
        if memory is not None and self.weights_bytes >= memory:
            reason = f"the weights have {self.weights_bytes} bytes, and --model-memory-mb allows {memory} in all"
            raise BundleError(self.bundle.directory, [reason])
        self.max_cache_bytes = None if memory is None else memory - self.weights_bytes
        self.metrics.model_workers_limit.value = self.limits.workers or math.inf
        self.metrics.model_cache_limit_bytes.value = math.inf if self.max_cache_bytes is None else self.max_cache_bytes

    def cache_bytes_of(self, sentence: Sentence) -> int:
        """Return the bytes of keys and values that a sentence takes at most, a share of spare pages included."""
        if self._cache_shape is None:
            return 0
        return self._cache_shape.bytes_needed(
            sentence.options.decoding.beam_size,
            source_tokens=len(sentence.source_ids),
            target_tokens=sentence.options.max_target_length,
        )

    def close(self) -> None:
        """Release everything except the manifest; no decoder may use the graphs afterwards.

        Requests and their sentences refer to each other, and so keep the model until Python looks for such cycles.
        """
        self.is_resting = True
        self.bundle = self.bundle.outline()
        self._sessions = self.quality_estimator = self.lexicon = None
        self._codecs = {}
        # Whatever asks for it now has a fault.
        vars(self).pop("codec", None)

    def release_packed_weights(self) -> None:
        """Take weights that processes share out of this one until the model is asked."""
        if self._sessions:
            self._sessions.release_packed()

    @property
    def keeps_terms(self) -> bool:
        """True if its graphs can search for translations that hold required phrases."""
        return inspects_rows(self.bundle.manifest)

    @property
    def reads_terms(self) -> bool:
        """True if it gets sentences with translations in the place of terms."""
        return self.bundle.manifest.terms.place != manifest_pb2.TERM_PLACE_SEARCH

    @property
    def sessions(self) -> Sessions:
        """The open graphs."""
        if self._sessions is None:
            raise RuntimeError("the graphs of the model are not open")
        return self._sessions

    def new_decoder(self) -> Decoder:
        """Return an empty decoder over the open graphs, for one thread."""
        return Decoder(self.sessions)

    def codec_between(self, source_language: str, target_language: str) -> TextCodec:
        """Return the codec for two languages, as the manifest spells them, or empty for the first."""
        pair = source_language, target_language
        if pair not in self._codecs:  # threads may make one twice, which are equal
            self._codecs[pair] = self.codec.between(*pair)
        return self._codecs[pair]

    def served(self, *, is_default: bool) -> ServedModel:
        """Describe the model to callers; `is_default`: whether requests that name no version get this one."""
        manifest = self.bundle.manifest
        return ServedModel(
            name=self.name,
            version=self.version,
            source_languages=tuple(manifest.source_language_codes),
            target_languages=with_traditional(manifest.target_language_codes),
            precision=self.bundle.precision,
            manifest_sha256=self.bundle.manifest_sha256,
            is_default=is_default,
            default_options=DecodingOptions(
                beam_size=manifest.generation_defaults.beam_size,
                num_hypotheses=1,
                length_penalty=manifest.generation_defaults.length_penalty,
                # A text that is not blank is never translated by nothing.
                min_target_length=1,
                max_target_length=None,
            ),
            max_source_length=manifest.dimensions.max_source_length,
            max_target_length=manifest.dimensions.max_target_length,
            max_content_characters=self._max_content_characters,
            licence=manifest.provenance.source.licence,
            source_model=manifest.provenance.source.name,
            needs_source_language=len(manifest.source_format.source_language_ids) > 1,
            needs_target_language=max(
                len(manifest.source_format.language_prefix_ids), len(manifest.target_format.language_ids)
            )
            > 1,
            uses_shortlist=self._uses_shortlist,
            has_quality_head=self.bundle.has_quality_head,
        )

    def sentence(
        self,
        source_ids: tuple[int, ...],
        options: DecodingOptions,
        constraints: TargetConstraints = UNCONSTRAINED,
        *,
        language_ids: tuple[int, ...] = (),
    ) -> Sentence:
        """Make a sentence for the decoder; its `constraints` are the texts of the caller's options, as ids.

        `language_ids` stand before these texts, name the target language, and are not counted by the options.
        """
        source_tokens = len(source_ids)
        factor, offset = self._length_line
        limit = int(factor * source_tokens + offset) + constraints.phrase_tokens
        # The caller's minimum, prefix and terms make room for themselves and the end token.
        forced = max(options.min_target_length, len(constraints.prefix_ids) + 1) + 1
        limit = min(max(limit, forced), self._max_target_length)
        if options.max_target_length:
            # More than twice what any translation of the source needs is the work of a search that does not end.
            limit = min(options.max_target_length, max(limit, 2 * self.justified_tokens(source_tokens)))
        longest, named = self._max_target_length, len(language_ids)
        minimum = options.min_target_length + named if options.min_target_length else 0
        # An end that is forbidden at the first step changes what Marian's beam finds; so it is forbidden only where it
        # is the answer.
        is_never_empty = self._rules.shrinks and minimum == 1
        minimum = 0 if is_never_empty else minimum
        resolved = SearchOptions(
            decoding=replace(options, min_target_length=minimum) if minimum != options.min_target_length else options,
            max_target_length=min(limit + named, longest),
            prefix_ids=language_ids + constraints.prefix_ids,
            suppressed_sequences=constraints.suppressed_sequences,
            phrases=constraints.phrases,
            expected_phrases=constraints.expected_phrases,
            rules=self._rules,
            is_never_empty=is_never_empty,
        )
        return Sentence(source_ids=list(source_ids), options=resolved)

    def lexicon_ids(self, sentence: str) -> tuple[int, ...]:
        """Return the target ids, end token included, of a sentence that the lexicon has; none of any other."""
        translation = self.lexicon.translation(sentence) if self.lexicon else None
        if translation is None:
            return ()
        target_ids = tuple(self.codec.encode_target(translation))
        return (*target_ids, self.bundle.manifest.special_ids.eos_id) if self.codec.can_write(target_ids) else ()

    def justified_tokens(self, source_tokens: int) -> int:
        """Return how many target tokens a caller may force for a source, end token not counted."""
        factor, offset = self._length_line
        return min(max(int(factor * source_tokens + offset), _ALWAYS_JUSTIFIED), self._max_target_length)

    def sample_sentence(self, sample: Sample) -> Sentence:
        """Make a sentence for the decoder of a sample of the certificate."""
        options = DecodingOptions(
            beam_size=sample.beam_size,
            num_hypotheses=1,
            length_penalty=sample.length_penalty,
            min_target_length=0,
            max_target_length=None,
        )
        # It may be into any of the target languages; its first id tells which.
        named = 1 if self.bundle.manifest.target_format.language_ids else 0
        return self.sentence(sample.source_ids, options, language_ids=sample.target_ids[:named])


def open_codec(
    bundle: Bundle, token_classes: npt.NDArray[np.int8] | None = None, processors: Processors | None = None
) -> TextCodec:
    """Open the codec between the first of a bundle's languages; BundleError if a tokeniser does not fit.

    Args:
        token_classes: Classes of the target's tokens, [vocab]; None to compute them.
        processors: SentencePiece models that are in use; None for none.
    """
    read = partial(read_limited, bundle.directory, limit=MAX_FILE_BYTES)
    try:
        tokenizers = open_tokenizers(*_sides(bundle), read, processors or Processors())
    except TokenizerError as error:
        raise BundleError(bundle.directory, error.faults) from error
    size = bundle.manifest.dimensions.target_vocab_size
    phrases = TargetPhrases(tokenizers[1], size, classes=token_classes)
    return TextCodec(_sentence_format(bundle.manifest), tokenizers, target_phrases=phrases)


def _sides(bundle: Bundle) -> tuple[Side, Side]:
    manifest = bundle.manifest
    ids, source_format, target_format = manifest.special_ids, manifest.source_format, manifest.target_format
    is_shared = manifest.source_vocabulary == manifest.target_vocabulary
    source = Side(
        tokenizer=manifest.source_tokenizer,
        vocab_size=manifest.dimensions.source_vocab_size,
        vocabulary=manifest.source_vocabulary,
        table=bundle.source_vocabulary,
        special_ids={name: getattr(ids, name) for name in ("source_pad_id", "source_eos_id", "source_unk_id")},
        unk_id=ids.source_unk_id,
        language_ids={*source_format.language_prefix_ids.values(), *source_format.source_language_ids.values()},
        silent_ids=target_format.silent_ids if is_shared else (),
    )
    target = Side(
        tokenizer=manifest.target_tokenizer,
        vocab_size=manifest.dimensions.target_vocab_size,
        vocabulary=manifest.target_vocabulary,
        table=bundle.target_vocabulary,
        special_ids={name: getattr(ids, name) for name in ("decoder_start_id", "eos_id", "unk_id")},
        unk_id=ids.unk_id,
        language_ids=target_format.language_ids.values(),
        silent_ids=target_format.silent_ids,
    )
    return source, target


def _sentence_format(manifest: manifest_pb2.Manifest) -> SentenceFormat:
    source_format = manifest.source_format
    return SentenceFormat(
        source_languages=tuple(manifest.source_language_codes),
        target_languages=tuple(manifest.target_language_codes),
        normalization=source_format.normalization,
        end_id=manifest.special_ids.source_eos_id,
        source_language_ids=dict(source_format.source_language_ids),
        is_source_named_last=source_format.source_language_place == manifest_pb2.SOURCE_LANGUAGE_PLACE_AFTER_END,
        language_prefix_ids=dict(source_format.language_prefix_ids),
        target_language_ids=dict(manifest.target_format.language_ids),
        max_source_length=manifest.dimensions.max_source_length,
        target_vocab_size=manifest.dimensions.target_vocab_size,
    )
