from __future__ import annotations

import re
from pathlib import Path

import pytest

from xuanzang.command.settings import field_texts
from xuanzang.server import settings as settings_module
from xuanzang.server.engine.settings import UNLIMITED, ModelLimits
from xuanzang.server.settings import Settings, read_settings, split_address

Capture = pytest.CaptureFixture[str]


def test_flags_override_the_environment_which_overrides_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XUANZANG_MAX_BATCH_SENTENCES", "16")
    monkeypatch.setenv("XUANZANG_LOG_LEVEL", "debug")
    settings = read_settings(["--max-batch-sentences", "8"])
    assert (settings.max_batch_sentences, settings.log_level, settings.log_format) == (8, "debug", "auto")


def test_help_lists_flags_in_groups_without_types_of_python(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as caught:
        read_settings(["--help"])
    shown, texts = capsys.readouterr().out, field_texts(Settings)
    assert caught.value.code == 0
    assert shown.startswith("usage: xuanzang serve [OPTION ...]\n")
    flags = {" ".join(line.split()[:2]) for line in shown.splitlines() if line.startswith("  --")}
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in {flag.split()[0].rstrip(",") for flag in flags}
        assert texts[name]
    assert {"--models PATH", "--address HOST:PORT", "--workers N", "--drain-timeout-seconds SECONDS"} <= flags
    assert not {flag for flag in flags if flag.split()[-1] in {"int", "float", "str", "Path"}}
    _, machine, logs = re.split("\n\n(?:Use of the machine, and limits|Logs, traces, TLS and the stop).*:\n", shown)
    assert "\n  --workers N" in machine
    assert "\n  --log-level" in logs


ADDRESS = "--address (XUANZANG_ADDRESS): must be host:port, such as 127.0.0.1:50051 or [::]:50051, got 'localhost'"
BATCH = "--max-batch-sentences (XUANZANG_MAX_BATCH_SENTENCES): Input should be greater than or equal to 1, got '0'"


def refusal(arguments: list[str], capsys: Capture) -> str:
    """Return what is written of arguments that end the start."""
    with pytest.raises(SystemExit) as caught:
        read_settings(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--max-batch-sentences=0", BATCH),
        ("--provider=tpu", "--provider (XUANZANG_PROVIDER): Input should be 'cpu', 'cuda' or 'auto', got 'tpu'"),
        ("--address=localhost", ADDRESS),
        ("--models=/nowhere", "--models (XUANZANG_MODELS): Path does not point to a directory, got '/nowhere'"),
        (f"--tls-key={__file__}", "--tls-certificate and --tls-key must be given together"),
        (f"--tls-client-ca={__file__}", "--tls-client-ca needs --tls-certificate and --tls-key"),
        ("--admin-address=0.0.0.0:1", "keys of the role admin"),
        ("--admin-address=1 --no-admin-anonymous", "keys of the role admin"),
        *(
            (f"--model-workers={limits}", "--model-workers")
            for limits in ("zh-en", "zh-en=0", "zh-en=1,zh-en=2", "=3", "zh-en=1=2")
        ),
    ],
)
def test_an_invalid_value_is_reported_in_one_line(arguments: str, line: str, capsys: Capture) -> None:
    shown = refusal(arguments.split(), capsys)
    assert shown.startswith("xuanzang serve: error: ")
    assert line in shown
    assert shown.count("\n") == 1


def test_every_invalid_value_and_unknown_flags_are_reported(capsys: Capture) -> None:
    assert len(refusal(["--workers=-1", "--log-level=loud"], capsys).splitlines()) == 2
    assert "unrecognized arguments: --bogus" in refusal(["--bogus"], capsys)


@pytest.mark.parametrize(
    ("variable", "value", "flags", "message"),
    [
        ("WORKERS", "many", [], "--workers (XUANZANG_WORKERS): Input should be a valid integer"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", ["--tracing"], "OTEL_EXPORTER_OTLP_PROTOCOL must be grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", ["--tracing"], "_OTLP_TRACES_PROTOCOL must be grpc"),
    ],
)
def test_an_invalid_value_in_the_environment_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, variable: str, value: str, flags: list[str], message: str
) -> None:
    monkeypatch.setenv(variable if flags else f"XUANZANG_{variable}", value)
    assert message in refusal(flags, capsys)
    assert not flags or not read_settings([]).tracing


def test_tracing_without_its_packages_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def find_nothing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(settings_module, "find_spec", find_nothing)
    assert "--tracing needs OpenTelemetry" in refusal(["--tracing"], capsys)


@pytest.mark.parametrize(("arguments", "kernels"), [([], True), (["--kernels"], True), (["--no-kernels"], False)])
def test_a_switch_has_a_flag_for_on_and_one_for_off(tmp_path: Path, arguments: list[str], kernels: bool) -> None:
    assert read_settings([f"--models={tmp_path}", *arguments]).kernels == kernels


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:50051", ("127.0.0.1", 50051)), ("[::]:0", ("::", 0)), ("localhost:65535", ("localhost", 65535))],
)
def test_an_address_is_split_into_host_and_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", ":1", "host", "host:", "host:65536", "host:-1", "::1:5", "a b:1", "[::1]"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="must be host:port"):
        split_address(address)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], True),
        (["--address=localhost:1"], True),
        (["--address=[::1]:1"], True),
        (["--keys-file=FILE"], True),
        (["--keys-file=FILE", "--no-anonymous"], False),
        (["--keys-file=FILE", "--address=0.0.0.0:1"], False),
        (["--keys-file=FILE", "--address=0.0.0.0:1", "--anonymous"], True),
        (["--address=0.0.0.0:1", "--anonymous"], True),
        (["--address=0.0.0.0:1", "--tls-certificate=FILE", "--tls-key=FILE", "--tls-client-ca=FILE"], True),
        (["--address=0.0.0.0:1"], "--keys-file FILE, --tls-client-ca FILE, or --anonymous for anyone"),
        (["--no-anonymous"], "--no-anonymous needs --keys-file FILE"),
    ],
)
def test_anonymous_callers_are_answered_on_loopback_or_if_asked_for(
    tmp_path: Path, flags: list[str], expected: bool | str, capsys: Capture
) -> None:
    (tmp_path / "file").touch()
    arguments = [f"--models={tmp_path}", *(flag.replace("FILE", str(tmp_path / "file")) for flag in flags)]
    if isinstance(expected, bool):
        assert read_settings(arguments).admits_anonymous is expected
    else:
        assert expected in refusal(arguments, capsys)


def test_a_probe_needs_no_say_on_who_may_call(tmp_path: Path) -> None:
    assert read_settings([f"--models={tmp_path}", "--address=0.0.0.0:1", "--probe"]).probe


def test_limits_of_models_are_read_by_name() -> None:
    settings = read_settings(["--model-workers=zh-en=1, en-zh=2", "--model-memory-mb=zh-en=500"])
    assert settings.limits_of("zh-en") == ModelLimits(workers=1, memory_bytes=500_000_000)
    assert settings.limits_of("en-zh") == ModelLimits(workers=2)
    assert settings.limits_of("de-en") == UNLIMITED


@pytest.mark.parametrize(
    ("flags", "admitted"),
    [
        (["--admin-address=50052"], True),
        (["--admin-address=50052", "--no-admin-anonymous", "--keys-file={keys}"], False),
        (["--admin-address=0.0.0.0:50052", "--keys-file={keys}"], False),
        (["--admin-address=0.0.0.0:50052", "--admin-anonymous"], True),
    ],
)
def test_who_may_administer_without_a_key(tmp_path: Path, flags: list[str], admitted: bool) -> None:
    keys = tmp_path / "keys"
    keys.write_text("")
    settings = read_settings([flag.format(keys=keys) for flag in flags])
    assert settings.admits_anonymous_administrators is admitted
