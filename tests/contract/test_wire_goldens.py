"""Compatibility of the wire format between clients and servers of any two versions."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.rpc import error_details_pb2 as google_details
from google.rpc import status_pb2 as google_status

from xuanzang.admin.v1 import admin_pb2
from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.translation.v1 import explanation_pb2, status_pb2, translation_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

# Fields are only added. A changed number or type breaks every client in use.
FIELDS = {
    "TranslateTextRequest": {
        "contents": (1, "repeated string"),
        "settings": (2, "message"),
    },
    "TranslateTextResponse": {
        "translations": (1, "repeated message"),
        "model": (2, "string"),
        "model_version": (3, "string"),
    },
    "StreamTranslateTextRequest": {
        "id": (1, "string"),
        "content": (2, "string"),
        "settings": (3, "message"),
    },
    "StreamTranslateTextResponse": {
        "id": (1, "string"),
        "translation": (2, "message"),
        "error": (3, "message"),
        "model": (4, "string"),
        "model_version": (5, "string"),
    },
    "TranslateTextProgressivelyRequest": {
        "content": (1, "string"),
        "settings": (2, "message"),
    },
    "TranslateTextProgressivelyResponse": {
        "text_delta": (1, "string"),
        "translation": (2, "message"),
        "model": (3, "string"),
        "model_version": (4, "string"),
    },
    "ExplainTranslationRequest": {
        "content": (1, "string"),
        "settings": (2, "message"),
        "attention_kinds": (3, "repeated enum"),
        "attention_layers": (4, "repeated int32"),
        "attention_heads": (5, "bool"),
    },
    "ExplainTranslationResponse": {
        "translation": (1, "message"),
        "explanation": (2, "message"),
        "model": (3, "string"),
        "model_version": (4, "string"),
    },
    "GlossaryEntry": {"source": (1, "string"), "targets": (2, "repeated string")},
    "GlossaryMatch": {
        "source": (1, "string"),
        "source_start": (2, "int32"),
        "source_end": (3, "int32"),
        "target": (4, "string"),
        "outcome": (5, "enum"),
        "pattern": (6, "enum"),
    },
    "ListGlossariesRequest": {},
    "ListGlossariesResponse": {"glossaries": (1, "repeated message")},
    "ListGlossaryEntriesRequest": {"name": (1, "string")},
    "ListGlossaryEntriesResponse": {"glossary": (1, "message"), "entries": (2, "repeated message")},
    "CreateGlossaryRequest": {
        "name": (1, "string"),
        "source_language_code": (2, "string"),
        "target_language_code": (3, "string"),
        "version": (4, "string"),
        "entries": (5, "repeated message"),
        "replace": (6, "bool"),
        "display_name": (7, "string"),
    },
    "CreateGlossaryResponse": {"glossary": (1, "message")},
    "DeleteGlossaryRequest": {"name": (1, "string")},
    "DeleteGlossaryResponse": {},
    "Glossary": {
        "name": (1, "string"),
        "source_language_code": (2, "string"),
        "target_language_code": (3, "string"),
        "version": (4, "string"),
        "entry_count": (5, "int32"),
        "sha256": (6, "string"),
        "display_name": (7, "string"),
    },
    "ListModelsRequest": {},
    "ListModelsResponse": {"models": (1, "repeated message")},
    "TranslationSettings": {
        "source_language_code": (1, "string"),
        "target_language_code": (2, "string"),
        "model": (3, "string"),
        "options": (4, "message"),
        "content_format": (5, "enum"),
        "glossary_entries": (6, "repeated message"),
        "glossary": (7, "string"),
        "protected_patterns": (8, "repeated enum"),
        "return_alternatives": (9, "bool"),
        "return_scores": (10, "bool"),
        "token_details": (11, "bool"),
        "return_quality": (12, "bool"),
        "return_provenance": (13, "bool"),
        "pass_through_unserved": (14, "bool"),
        "placeholders": (15, "repeated enum"),
    },
    "DecodingOptions": {
        "beam_size": (1, "int32"),
        "num_hypotheses": (2, "int32"),
        "length_penalty": (3, "float"),
        "coverage_penalty": (4, "float"),
        "repetition_penalty": (5, "float"),
        "no_repeat_ngram_size": (6, "int32"),
        "min_target_length": (7, "int32"),
        "max_target_length": (8, "int32"),
        "target_prefix": (9, "string"),
        "suppressed_texts": (10, "repeated string"),
        "sampling": (11, "message"),
        "partial_on_deadline": (12, "bool"),
        "refuse_long_sentences": (13, "bool"),
    },
    "SamplingOptions": {
        "top_k": (1, "int32"),
        "top_p": (2, "float"),
        "temperature": (3, "float"),
        "seed": (4, "int32"),
    },
    "Translation": {
        "hypotheses": (1, "repeated message"),
        "glossary_matches": (2, "repeated message"),
        "detected_language_code": (3, "string"),
        "provenance": (4, "message"),
        "detected_language_confidence": (5, "float"),
    },
    "Provenance": {
        "method": (1, "string"),
        "model": (2, "string"),
        "model_version": (3, "string"),
        "manifest_sha256": (4, "string"),
        "precision": (5, "string"),
        "shortlist": (6, "bool"),
        "execution_provider": (7, "string"),
        "kernels": (8, "string"),
        "kernels_reason": (9, "string"),
        "server_version": (10, "string"),
        "onnxruntime_version": (11, "string"),
        "settings": (12, "message"),
        "sentences": (13, "repeated message"),
    },
    "SentenceProvenance": {
        "sentence_index": (1, "int32"),
        "worker": (2, "int32"),
        "batch_sentences": (3, "int32"),
        "queue_milliseconds": (4, "double"),
        "encode_milliseconds": (5, "double"),
        "decode_milliseconds": (6, "double"),
        "steps": (7, "int32"),
        "searches": (8, "int32"),
        "max_target_length": (9, "int32"),
        "source_with_terms": (10, "string"),
        "terms_required": (11, "bool"),
        "kept_answer": (12, "bool"),
        "from_lexicon": (13, "bool"),
    },
    "Hypothesis": {
        "text": (1, "string"),
        "score": (2, "float"),
        "token_count": (3, "int32"),
        "finish_reason": (4, "enum"),
        "tokens": (5, "repeated message"),
        "quality": (6, "message"),
        "lost_placeholders": (7, "repeated string"),
    },
    "Quality": {"acceptable_probability": (1, "float"), "flags": (2, "repeated enum")},
    "DetectLanguageRequest": {"contents": (1, "repeated string")},
    "DetectLanguageResponse": {"detections": (1, "repeated message")},
    "LanguageDetection": {"languages": (1, "repeated message")},
    "DetectedLanguage": {"language_code": (1, "string"), "confidence": (2, "float"), "script_code": (3, "string")},
    "TokenDetail": {
        "text": (1, "string"),
        "score": (2, "float"),
        "source_start": (3, "int32"),
        "source_end": (4, "int32"),
    },
    "Model": {
        "name": (1, "string"),
        "version": (2, "string"),
        "source_language_codes": (3, "repeated string"),
        "target_language_codes": (4, "repeated string"),
        "precision": (5, "string"),
        "manifest_sha256": (6, "string"),
        "is_default": (7, "bool"),
        "default_options": (8, "message"),
        "max_source_length": (9, "int32"),
        "max_target_length": (10, "int32"),
        "max_content_characters": (11, "int32"),
        "licence": (12, "string"),
        "source_model": (13, "string"),
    },
}

TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_MESSAGE: "message",
    FieldDescriptor.TYPE_ENUM: "enum",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
}

OPTIONS = pb.DecodingOptions(
    beam_size=4, num_hypotheses=1, length_penalty=1, min_target_length=0, max_target_length=300
)
SETTINGS = pb.TranslationSettings(
    source_language_code="zh", target_language_code="en", model="m", options=OPTIONS, return_scores=True
)
SETTINGS_BYTES = "0a027a68 1202656e 1a016d 220e 0804 1001 1d0000803f 3800 40ac02 5001"

# Written by hand from the rules of the encoding: key = number << 3 | wire type, then length or value.
GOLDENS = [
    (pb.TranslateTextRequest(contents=["猫", ""]), "0a03e78cab 0a00"),
    (pb.TranslateTextRequest(contents=["a"], settings=SETTINGS), "0a0161 121d" + SETTINGS_BYTES),
    (pb.StreamTranslateTextRequest(id="7", content="a", settings=SETTINGS), "0a0137 120161 1a1d" + SETTINGS_BYTES),
    (pb.TranslateTextProgressivelyRequest(content="a", settings=SETTINGS), "0a0161 121d" + SETTINGS_BYTES),
    (pb.ExplainTranslationRequest(content="a", settings=SETTINGS), "0a0161 121d" + SETTINGS_BYTES),
    (
        pb.TranslationSettings(
            content_format=pb.CONTENT_FORMAT_XML,
            glossary_entries=[pb.GlossaryEntry(source="a", targets=["b"])],
            glossary="g",
            protected_patterns=[pb.PROTECTED_PATTERN_URL, pb.PROTECTED_PATTERN_TAG],
            return_alternatives=True,
            return_scores=True,
            token_details=True,
            return_quality=True,
            return_provenance=True,
        ),
        "2803 3206 0a0161 120162 3a0167 42020106 4801 5001 5801 6001 6801",
    ),
    (
        pb.Translation(
            provenance=pb.Provenance(
                method="m",
                model="z",
                model_version="2",
                manifest_sha256="f",
                precision="i",
                shortlist=True,
                execution_provider="c",
                kernels="k",
                kernels_reason="r",
                server_version="s",
                onnxruntime_version="o",
                settings=pb.TranslationSettings(target_language_code="e", options=pb.DecodingOptions(beam_size=4)),
                sentences=[
                    pb.SentenceProvenance(
                        sentence_index=1,
                        worker=2,
                        batch_sentences=3,
                        queue_milliseconds=0.5,
                        encode_milliseconds=1,
                        decode_milliseconds=2,
                        steps=4,
                        searches=1,
                        max_target_length=300,
                        source_with_terms="s",
                        terms_required=True,
                        kept_answer=True,
                        from_lexicon=True,
                    )
                ],
            )
        ),
        (
            "225c 0a016d 12017a 1a0132 220166 2a0169 3001 3a0163 42016b 4a0172 520173 5a016f 6207 120165 22020804 6a31 "
            "0801 1002 1803 21000000000000e03f 29000000000000f03f 310000000000000040 3804 4001 48ac02 520173 5801 6001 "
            "6801"
        ),
    ),
    # An option set to zero is not an option left out.
    (pb.DecodingOptions(length_penalty=0, refuse_long_sentences=False), "1d00000000 6800"),
    (
        pb.DecodingOptions(
            coverage_penalty=0,
            repetition_penalty=1,
            no_repeat_ngram_size=3,
            target_prefix="I",
            suppressed_texts=["a", "b"],
            sampling=pb.SamplingOptions(top_k=5, top_p=0.5, temperature=2, seed=0),
            partial_on_deadline=True,
            refuse_long_sentences=True,
        ),
        "2500000000 2d0000803f 3003 4a0149 520161 520162 5a0e 0805 150000003f 1d00000040 2000 6001 6801",
    ),
    # Empty sampling options mean sampling with the defaults.
    (pb.DecodingOptions(sampling=pb.SamplingOptions()), "5a00"),
    (pb.TranslateTextProgressivelyResponse(text_delta="猫"), "0a03e78cab"),
    (
        pb.TranslateTextProgressivelyResponse(
            translation=pb.Translation(
                hypotheses=[
                    pb.Hypothesis(
                        finish_reason=pb.FINISH_REASON_DEADLINE,
                        tokens=[pb.TokenDetail(text="a", score=-0.5, source_start=1, source_end=2)],
                    )
                ]
            ),
            model="m",
            model_version="1",
        ),
        "1212 0a10 2004 2a0c 0a0161 15000000bf 1801 2002 1a016d 220131",
    ),
    (
        pb.StreamTranslateTextResponse(
            id="7",
            translation=pb.Translation(
                hypotheses=[
                    pb.Hypothesis(text="cat", score=-0.5, token_count=2, finish_reason=pb.FINISH_REASON_END_OF_SENTENCE)
                ]
            ),
            model="m",
            model_version="1",
        ),
        "0a0137 1210 0a0e 0a03636174 15000000bf 1802 2001 22016d 2a0131",
    ),
    (
        pb.StreamTranslateTextResponse(id="7", error=status_pb2.Status(code=3, message="no")),
        "0a0137 1a06 0803 12026e6f",
    ),
    (
        pb.DetectLanguageResponse(
            detections=[pb.LanguageDetection(languages=[pb.DetectedLanguage(language_code="de", confidence=0.5)])]
        ),
        "0a0b 0a09 0a026465 150000003f",
    ),
    (
        pb.Quality(acceptable_probability=0.5, flags=[pb.QUALITY_FLAG_REPETITION, pb.QUALITY_FLAG_CUT]),
        "0d0000003f 12020109",
    ),
    # A probability of 0 is not one left out.
    (pb.Quality(acceptable_probability=0), "0d00000000"),
    (pb.ListModelsRequest(), ""),
    (
        pb.ListModelsResponse(models=[pb.Model(name="m", version="1", is_default=True, max_target_length=300)]),
        "0a0b 0a016d 120131 3801 50ac02",
    ),
]


def described(field: FieldDescriptor) -> tuple[int, str]:
    return field.number, ("repeated " if field.is_repeated else "") + TYPES[field.type]


def test_fields_keep_their_numbers_and_types() -> None:
    messages: dict[str, Descriptor] = dict(translation_pb2.DESCRIPTOR.message_types_by_name)
    now = {name: {field.name: described(field) for field in each.fields} for name, each in messages.items()}
    kept = {name: {field: now[name].get(field) for field in fields} for name, fields in FIELDS.items()}
    assert kept == FIELDS
    assert now == kept, "a new field: add it to the table, so that it stays"


def test_requests_that_translate_have_the_same_settings() -> None:
    settings = pb.TranslationSettings.DESCRIPTOR
    requests: tuple[Any, ...] = (
        pb.TranslateTextRequest,
        pb.StreamTranslateTextRequest,
        pb.TranslateTextProgressivelyRequest,
        pb.ExplainTranslationRequest,
    )
    for fields in (request.DESCRIPTOR.fields_by_name for request in requests):
        assert fields["settings"].message_type is settings
        assert set(fields).isdisjoint(settings.fields_by_name), "shared by requests, so it belongs to the settings"


@pytest.mark.parametrize("file", [translation_pb2, explanation_pb2, status_pb2, admin_pb2, manifest_pb2])
def test_fields_are_numbered_in_the_order_of_the_file(file: Any) -> None:
    for message in file.DESCRIPTOR.message_types_by_name.values():
        assert [field.number for field in message.fields] == list(range(1, len(message.fields) + 1)), message.name


def test_optional_fields_have_presence() -> None:
    for options in (pb.DecodingOptions, pb.SamplingOptions):
        fields = [field for field in options.DESCRIPTOR.fields if not field.is_repeated]
        assert [field.name for field in fields if not field.has_presence] == []
    assert pb.Hypothesis.DESCRIPTOR.fields_by_name["score"].has_presence
    assert pb.Quality.DESCRIPTOR.fields_by_name["acceptable_probability"].has_presence


def test_finish_reasons_keep_their_numbers() -> None:
    assert dict(pb.ContentFormat.items()) == {
        "CONTENT_FORMAT_UNSPECIFIED": 0,
        "CONTENT_FORMAT_TEXT": 1,
        "CONTENT_FORMAT_HTML": 2,
        "CONTENT_FORMAT_XML": 3,
    }
    assert dict(pb.FinishReason.items()) == {
        "FINISH_REASON_UNSPECIFIED": 0,
        "FINISH_REASON_END_OF_SENTENCE": 1,
        "FINISH_REASON_MAX_LENGTH": 2,
        "FINISH_REASON_COPIED": 3,
        "FINISH_REASON_DEADLINE": 4,
        "FINISH_REASON_UNSERVED_LANGUAGE": 5,
        "FINISH_REASON_PLACEHOLDER_LOST": 6,
    }


def test_patterns_and_outcomes_keep_their_numbers() -> None:
    patterns = ("UNSPECIFIED", "URL", "EMAIL", "CODE", "PLACEHOLDER", "NUMBER", "TAG")
    assert pb.ProtectedPattern.keys() == [f"PROTECTED_PATTERN_{name}" for name in patterns]
    assert pb.ProtectedPattern.values() == list(range(7))
    outcomes = ("UNSPECIFIED", "HONOURED", "NOT_WRITABLE", "NO_ROOM", "NOT_REACHED")
    assert pb.GlossaryOutcome.keys() == [f"GLOSSARY_OUTCOME_{name}" for name in outcomes]
    assert pb.GlossaryOutcome.values() == list(range(5))


def test_quality_flags_keep_their_numbers() -> None:
    names = (
        *("UNSPECIFIED", "REPETITION", "LENGTH_RATIO", "UNTRANSLATED", "TRUNCATED", "LOW_COVERAGE", "NUMBER_LOST"),
        *("NAME_LOST", "WRONG_LANGUAGE", "CUT", "SOURCE_LANGUAGE"),
    )
    assert dict(pb.QualityFlag.items()) == {f"QUALITY_FLAG_{name}": number for number, name in enumerate(names)}


def test_methods_keep_their_names_types_and_streaming() -> None:
    service = translation_pb2.DESCRIPTOR.services_by_name["TranslationService"]
    methods = {
        each.name: (each.input_type.name, each.client_streaming, each.output_type.name, each.server_streaming)
        for each in service.methods
    }
    assert service.full_name == "xuanzang.translation.v1.TranslationService"
    assert methods == {
        "TranslateText": ("TranslateTextRequest", False, "TranslateTextResponse", False),
        "StreamTranslateText": ("StreamTranslateTextRequest", True, "StreamTranslateTextResponse", True),
        "TranslateTextProgressively": (
            "TranslateTextProgressivelyRequest",
            False,
            "TranslateTextProgressivelyResponse",
            True,
        ),
        "ExplainTranslation": ("ExplainTranslationRequest", False, "ExplainTranslationResponse", False),
        "DetectLanguage": ("DetectLanguageRequest", False, "DetectLanguageResponse", False),
        "ListModels": ("ListModelsRequest", False, "ListModelsResponse", False),
        "ListGlossaries": ("ListGlossariesRequest", False, "ListGlossariesResponse", False),
        "ListGlossaryEntries": ("ListGlossaryEntriesRequest", False, "ListGlossaryEntriesResponse", False),
        "CreateGlossary": ("CreateGlossaryRequest", False, "CreateGlossaryResponse", False),
        "DeleteGlossary": ("DeleteGlossaryRequest", False, "DeleteGlossaryResponse", False),
    }


@pytest.mark.parametrize(("message", "golden"), GOLDENS, ids=lambda value: type(value).__name__)
def test_messages_are_written_and_read_byte_for_byte(message: Any, golden: Any) -> None:
    wire = bytes.fromhex(golden)
    assert message.SerializeToString(deterministic=True) == wire
    assert type(message).FromString(wire) == message


def test_unknown_fields_of_a_later_version_are_kept() -> None:
    later = bytes.fromhex("0a0161 9a0603") + b"new"  # field 99
    assert pb.TranslateTextRequest.FromString(later).SerializeToString() == later


@pytest.mark.parametrize(
    ("ours", "googles"),
    [
        (status_pb2.Status, google_status.Status),
        (status_pb2.BadRequest, google_details.BadRequest),
        (status_pb2.BadRequest.FieldViolation, google_details.BadRequest.FieldViolation),
        (status_pb2.RetryInfo, google_details.RetryInfo),
        (status_pb2.ErrorInfo, google_details.ErrorInfo),
        (status_pb2.QuotaFailure, google_details.QuotaFailure),
    ],
    ids=["Status", "BadRequest", "FieldViolation", "RetryInfo", "ErrorInfo", "QuotaFailure"],
)
def test_errors_have_the_fields_that_googles_have(ours: Any, googles: Any) -> None:
    shape = {field.number: described(field) for field in ours.DESCRIPTOR.fields}
    theirs = {field.number: described(field) for field in googles.DESCRIPTOR.fields}
    # Google may add fields; ours are the first ones, and readers ignore the rest.
    assert shape == {number: theirs[number] for number in shape}
    assert shape


def filled_errors() -> Any:
    bad_request = google_details.BadRequest(
        field_violations=[google_details.BadRequest.FieldViolation(field="contents[3]", description="is too long")]
    )
    retry = google_details.RetryInfo()
    retry.retry_delay.FromMilliseconds(2500)
    status = google_status.Status(code=8, message="busy")
    for detail in (bad_request, retry):
        status.details.add().Pack(detail)
    return status, bad_request, retry


def test_errors_written_by_googles_classes_are_read_byte_for_byte_by_ours() -> None:
    ours: tuple[Any, ...] = (status_pb2.Status, status_pb2.BadRequest, status_pb2.RetryInfo)
    for theirs, kind in zip(filled_errors(), ours, strict=True):
        wire = theirs.SerializeToString(deterministic=True)
        read = kind.FromString(wire)
        assert read.SerializeToString(deterministic=True) == wire
        assert not [
            field.number for field, _ in read.ListFields() if field.number not in kind.DESCRIPTOR.fields_by_number
        ]
        assert type(theirs).FromString(read.SerializeToString()) == theirs
