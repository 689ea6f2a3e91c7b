"""The command `xuanzang`: requests, output, exit codes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.unit.client.conftest import Run, Script, Silent, aborting, offer

from xuanzang.client._commands.progress import Progress
from xuanzang.translation.v1 import status_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

TOKEN: dict[str, Any] = {"text": "A", "score": -0.25, "source_start": 0, "source_end": 1}
NOT_UTF_8 = "not UTF-8: invalid start byte at byte 0; --encoding NAME"


def refuse_long(requests: Any, context: Any) -> Iterator[Any]:
    for request in requests:
        if len(request.content) > 10:
            error = status_pb2.Status(code=3, message="content is longer than 10")
            yield pb.StreamTranslateTextResponse(id=request.id, error=error)
            continue
        reason, tokens = pb.FINISH_REASON_END_OF_SENTENCE, [pb.TokenDetail(**TOKEN)]
        hypothesis = pb.Hypothesis(text=request.content.upper(), score=-0.25, finish_reason=reason, tokens=tokens)
        yield pb.StreamTranslateTextResponse(
            id=request.id, translation=pb.Translation(hypotheses=[hypothesis]), model="zh-en", model_version="1"
        )


@pytest.mark.parametrize("layout", [[], ["--progressive"]])
def test_arguments_and_lines_of_standard_input_stay_one_line_each(run: Run, layout: list[str]) -> None:
    assert run("translate", *layout, "猫 a", "b") == (0, "猫 A\nB\n", "")
    assert run("translate", *layout, given="a\n\nb\r\nc") == (0, "A\n\nB\r\nC\n", "")


def test_a_file_with_tags_is_one_text(run: Run, script: Script, tmp_path: Path) -> None:
    (tmp_path / "page").write_text("<p>a\nb</p>\n\n<p>c</p>\n")
    for name in ("html", "xml"):
        assert run("translate", "--format", name, "-f", tmp_path / "page") == (0, "<P>A\nB</P>\n\n<P>C</P>\n", "")
    formats = [request.settings.content_format for request in script.requests]
    assert formats == [pb.CONTENT_FORMAT_HTML, pb.CONTENT_FORMAT_XML]
    assert run("translate", "--format", "text", given="a\nb") == (0, "A\nB\n", "")


def test_lines_of_a_file_are_written_to_another_in_their_order(run: Run, script: Script, tmp_path: Path) -> None:
    script.on_stream = lambda requests, context: reversed(list(refuse_long(requests, context)))
    (tmp_path / "zh").write_text("".join(f"line {number}\n" for number in range(100)))
    assert run("translate", "-f", tmp_path / "zh", "-o", tmp_path / "en") == (0, "", "")
    assert (tmp_path / "en").read_text() == "".join(f"LINE {number}\n" for number in range(100))
    assert run("translate", "-f", "-", "-o", "-", given="a\n") == (0, "A\n", "")


def test_a_refused_line_leaves_an_empty_one_and_is_reported(run: Run, script: Script) -> None:
    script.on_stream = refuse_long
    assert run("translate", "--scores", "a") == (0, "-0.2500\tA\n", "")
    refused = (1, "A\n\nC\n", "xuanzang: line 2: content is longer than 10\n")
    assert run("translate", given="a\nmuch too long\nc\n") == refused


def test_json_holds_all_fields_of_each_result(run: Run, script: Script) -> None:
    script.on_stream = refuse_long
    code, output, _ = run("translate", "--json", "a", "much too long")
    hypothesis = {"text": "A", "score": -0.25, "token_count": 0, "finish_reason": "END_OF_SENTENCE", "tokens": [TOKEN]}
    error = {"code": "INVALID_ARGUMENT", "message": "content is longer than 10"}
    assert code == 1
    assert [json.loads(line) for line in output.splitlines()] == [
        {"index": 0, "source": "a", "model": "zh-en", "model_version": "1", "hypotheses": [hypothesis]},
        {"index": 1, "source": "much too long", "error": error},
    ]


@pytest.mark.parametrize(
    ("flags", "settings", "options"),
    [
        (
            "--source zh --target en --model m --scores",
            {"source_language_code": "zh", "target_language_code": "en", "model": "m", "return_scores": True},
            {},
        ),
        (
            "--beam-size 3 --num-hypotheses 1 --length-penalty 0.5 --min-target-length 1 --max-target-length 9",
            {},
            {
                "beam_size": 3,
                "num_hypotheses": 1,
                "length_penalty": 0.5,
                "min_target_length": 1,
                "max_target_length": 9,
            },
        ),
        (
            "--coverage-penalty 0.25 --repetition-penalty 1.5 --no-repeat-ngram-size 3 --target-prefix I",
            {},
            {"coverage_penalty": 0.25, "repetition_penalty": 1.5, "no_repeat_ngram_size": 3, "target_prefix": "I"},
        ),
        ("--suppressed-text cat --suppressed-text dog", {}, {"suppressed_texts": ["cat", "dog"]}),
        ("--sample", {}, {"sampling": {}}),
        (
            "--top-k 5 --top-p 0.5 --temperature 2 --seed 0",
            {},
            {"sampling": {"top_k": 5, "top_p": 0.5, "temperature": 2, "seed": 0}},
        ),
        ("--alternatives --num-hypotheses 3", {"return_alternatives": True}, {"num_hypotheses": 3}),
        ("--json --token-details", {"token_details": True}, {}),
        ("", {}, {}),
    ],
)
def test_flags_reach_the_server(run: Run, script: Script, flags: str, settings: Any, options: Any) -> None:
    assert run("translate", "--client-id", "nightly", *flags.split(), "a")[0] == 0
    assert [metadata["x-client-id"] for metadata in script.metadata] == ["nightly"]
    expected = pb.TranslationSettings(**settings, **({"options": options} if options else {}))
    assert script.requests == [pb.StreamTranslateTextRequest(id="0", content="a", settings=expected)]


def test_a_part_is_written_before_the_next_one_arrives(start: Callable[..., Any], script: Script) -> None:
    written = threading.Event()

    def half(request: Any, context: Any) -> Iterator[Any]:
        yield pb.TranslateTextProgressivelyResponse(text_delta="half ")
        written.wait(30)
        hypotheses = [pb.Hypothesis(text="half done"), pb.Hypothesis(text="other")]
        yield pb.TranslateTextProgressivelyResponse(
            text_delta="done", translation=pb.Translation(hypotheses=hypotheses)
        )

    script.on_progressive = half
    process = start("translate", "--progressive", "a")
    assert process.stdout.read(5) == b"half "
    written.set()
    assert process.stdout.read() == b"done\nother\n"
    assert process.wait(120) == 0


def test_a_line_refused_in_progressive_mode_is_empty_and_reported(run: Run, script: Script) -> None:
    answer, refuse = script.on_progressive, aborting(grpc.StatusCode.INVALID_ARGUMENT, "no b")
    script.on_progressive = lambda request, context: (refuse if request.content == "b" else answer)(request, context)
    assert run("translate", "--progressive", given="a\nb\nc\n") == (1, "A\n\nC\n", "xuanzang: line 2: no b\n")


def test_a_text_with_a_retryable_error_is_retried_in_its_own_call(run: Run, script: Script) -> None:
    def busy(requests: Any, context: Any) -> Iterator[Any]:
        for request in requests:
            yield pb.StreamTranslateTextResponse(id=request.id, error=status_pb2.Status(code=14, message="busy"))

    script.on_stream = busy
    assert run("translate", "a") == (0, "A\n", "")
    assert [type(request) for request in script.requests] == [pb.StreamTranslateTextRequest, pb.TranslateTextRequest]


def test_models_are_listed_as_a_table_or_as_json(run: Run, script: Script) -> None:
    offer(script)
    code, output, _ = run("models")
    table = [line.split()[:4] for line in output.splitlines()]
    assert (code, table) == (0, [["MODEL", "VERSION", "FROM", "TO"], ["zh-en", "1", "zh", "en"]])
    assert json.loads(run("models", "--json")[1])["source_languages"] == ["zh"]


def test_languages_are_written_with_their_probability(run: Run) -> None:
    assert run("detect", "猫", "?") == (0, "zh\t0.75\nund\t0.00\n", "")
    found = '[{"code": "zh", "confidence": 0.75, "script": "Hans"}]\n'
    assert run("detect", "--json", given="猫\r\n") == (0, found, "")


def test_an_unreachable_server_is_reported_at_once_and_at_the_end_with_code_3(run: Run) -> None:
    code, output, errors = run("translate", "--timeout", "0.5", "a", address="127.0.0.1:1")
    assert (code, output) == (3, "")
    noticed, ended = errors.splitlines()
    assert noticed.startswith("xuanzang: 127.0.0.1:1 does not answer: ")
    assert ended.startswith("xuanzang: ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("translate -f no/such/file.txt", "No such file or directory"),
        ("translate --timeout 0 a", "timeout must be a positive number"),
        ("translate --address a:1, a", "address is empty"),
        (f"translate --tls-cert {os.devnull} a", "must be given together"),
        (f"translate --tls-key {os.devnull} a", "must be given together"),
        ("translate --beam-size x a", "invalid int value"),
        ("translate -f x a", "not allowed with argument"),
        ("translate --progressive --json a", "leave out --json"),
        ("translate --progressive --capsule x a", "leave out --progressive"),
        ("translate --partial-on-deadline a", "needs --progressive"),
        ("translate --token-details a", "needs --json"),
        ("translate --provenance a", "--provenance needs --json"),
        ("translate --client-id= a", "client_id must be 1 to 128"),
        ("translate --beam=4 a", "xuanzang translate: error: unrecognized arguments: --beam=4; did"),
        ("translate --sorce zh a", "--sorce; did you mean --source?"),
        ("glossaries list --adress=a:1", "xuanzang glossaries list: error: unrecognized arguments"),
        ("", "required: COMMAND"),
    ],
)
def test_wrong_usage_is_explained_without_traceback_with_code_2(run: Run, arguments: str, reason: str) -> None:
    code, _, errors = run(*arguments.split())
    assert (code, reason in errors, "Traceback" in errors) == (2, True, False)


@pytest.mark.parametrize("layout", [[], ["--progressive"]])
def test_a_line_that_is_not_utf8_is_refused_and_the_others_are_translated(
    run: Run, script: Script, layout: list[str]
) -> None:
    code, output, errors = run("translate", *layout, given=b"a\n\xff\nc\n")
    assert (code, output) == (1, "A\n\nC\n")
    assert errors.startswith(f"xuanzang: line 2: {NOT_UTF_8}")
    assert [request.content for request in script.requests] == ["a", "c"]


def test_a_line_that_is_not_utf8_is_an_error_in_json(run: Run) -> None:
    code, output, _ = run("translate", "--json", given=b"b\xff\n")
    result = json.loads(output)
    assert (code, result["source"], result["error"]["code"]) == (1, "b\ufffd", "INVALID_ARGUMENT")


def test_a_file_is_read_in_the_encoding_that_is_named(run: Run) -> None:
    lines = [f"{number} 一二三 a" for number in range(300)]
    for name in ("gbk", "gb18030", "utf-16", "big5"):
        code, output, errors = run("translate", "--encoding", name, "-f", "-", given="\n".join(lines).encode(name))
        assert (code, output.splitlines(), errors) == (0, [line.upper() for line in lines], "")


def test_a_file_in_utf_16_is_refused_unless_it_is_named(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("one\n".encode("utf-16le"))
    assert run("translate", "-f", file)[0] == 2
    assert run("translate", "--encoding", "utf-16le", "-f", file)[0] == 0


def test_each_line_of_a_file_in_another_encoding_is_named(run: Run) -> None:
    code, output, errors = run("translate", "-f", "-", given="你好\n".encode("gbk") * 300)
    assert (code, output) == (1, "\n" * 300)
    named = [line.partition(": not UTF-8: ")[0] for line in errors.splitlines()]
    assert named == [f"xuanzang: line {number}" for number in range(1, 301)]


def test_an_unknown_encoding_is_refused(run: Run) -> None:
    for name in ("latin-99", "base64", "a\udc80", "idna"):
        code, _, errors = run("translate", "--encoding", name, given=b"a\n")
        assert code == 2
        assert "argument --encoding: no encoding of text" in errors


def test_detect_names_a_line_in_another_encoding(run: Run) -> None:
    code, output, errors = run("detect", "-f", "-", given="a\n你好\n".encode("gbk"))
    assert (code, output) == (2, "")
    assert errors.startswith("xuanzang: line 2: not UTF-8: ")
    assert run("detect", "--encoding=gbk", given="猫\n".encode("gbk"))[:2] == (0, "zh\t0.75\n")


def test_help_lists_the_exit_codes(run: Run) -> None:
    code, output, _ = run("translate", "--help")
    assert code == 0
    for expected in ("0  ", "1  ", "2  ", "3  ", "130", "141"):
        assert f"\n  {expected}" in output


def typed(process: Any, line: bytes) -> Any:
    """Write a line to a running command and return the next line of its output."""
    process.stdin.write(line)
    process.stdin.flush()
    return process.stdout.readline()


def test_a_line_is_answered_before_the_next_is_typed(start: Callable[..., Any]) -> None:
    process = start("translate")
    assert [typed(process, line) for line in (b"a\n", b"b\n")] == [b"A\n", b"B\n"]


def test_ctrl_c_between_two_lines_ends_the_command(start: Callable[..., Any]) -> None:
    process = start("translate")
    assert typed(process, b"a\n") == b"A\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert process.stderr.read() == b""


def test_ctrl_c_during_a_call_ends_the_command_and_the_call(start: Callable[..., Any], script: Script) -> None:
    silent = Silent(script)
    process = start("translate", "a")
    assert silent.begun.wait(120)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert silent.ended.wait(120)
    assert process.stderr.read() == b""


def test_ctrl_c_while_a_call_is_being_begun_ends_the_command(script: Script) -> None:
    interrupted = (
        "import os, signal, sys, grpc._channel\n"
        "grpc._channel._run_channel_spin_thread = lambda _: os.kill(os.getpid(), signal.SIGINT)\n"
        "from xuanzang.client.__main__ import main\n"
        "sys.exit(main(['translate', '--address', sys.argv[1], 'a']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", interrupted, script.address], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_closed_output_ends_the_command_silently_with_code_141(start: Callable[..., Any]) -> None:
    process = start("translate")
    process.stdout.close()
    process.stdin.write(b"a\n" * 10)
    process.stdin.close()
    assert process.wait(120) == 141
    assert process.stderr.read() == b""
    process.stdin = process.stdout = None


def test_progress_counts_to_the_end_on_one_line() -> None:
    screen = io.StringIO()
    progress = Progress(3, screen)
    for _ in range(3):
        progress.advance()
    progress.close()
    assert screen.getvalue().count("\n") == 1
    last = screen.getvalue().rstrip().rsplit("\r", 1)[-1]
    assert last.startswith("[" + "#" * 30 + "] 100%  3/3 lines")
    assert "0:00 left" in last


def test_progress_reaches_numbers_of_what_it_counts() -> None:
    screen = io.StringIO()
    progress = Progress(4, screen, noun="texts")
    progress.reach(0)
    progress.reach(4)
    progress.close()
    assert "4/4 texts" in screen.getvalue()
    assert screen.getvalue().endswith("left\x1b[K\n")
