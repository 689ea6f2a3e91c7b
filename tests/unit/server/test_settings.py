from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.command.settings import field_texts
from xuanzang.server import settings as settings_module
from xuanzang.server.engine.settings import UNLIMITED, ModelLimits
from xuanzang.server.settings import Settings, read_settings, split_address


def test_flags_override_the_environment_which_overrides_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XUANZANG_MAX_BATCH_SENTENCES", "16")
    monkeypatch.setenv("XUANZANG_LOG_LEVEL", "debug")
    settings = read_settings(["--max-batch-sentences", "8"])
    assert (settings.max_batch_sentences, settings.log_level, settings.log_format) == (8, "debug", "auto")


def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read_settings(["--help"])
    shown = capsys.readouterr().out
    assert caught.value.code == 0
    texts = field_texts(Settings)
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in shown
        assert texts[name]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--max-batch-sentences=0"],
            "--max-batch-sentences (XUANZANG_MAX_BATCH_SENTENCES): Input should be greater than or equal to 1, got '0'",
        ),
        (["--provider=tpu"], "--provider (XUANZANG_PROVIDER): Input should be 'cpu', 'cuda' or 'auto', got 'tpu'"),
        (
            ["--address=localhost"],
            "--address (XUANZANG_ADDRESS): must be host:port, such as 127.0.0.1:50051 or [::]:50051, got 'localhost'",
        ),
        (["--models=/nowhere"], "--models (XUANZANG_MODELS): Path does not point to a directory, got '/nowhere'"),
        ([f"--tls-key={__file__}"], "--tls-certificate and --tls-key must be given together"),
        ([f"--tls-client-ca={__file__}"], "--tls-client-ca needs --tls-certificate and --tls-key"),
    ],
)
def test_an_invalid_value_is_reported_in_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        read_settings(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"xuanzang serve: error: {line}\n"


def test_an_invalid_value_in_the_environment_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XUANZANG_WORKERS", "many")
    with pytest.raises(SystemExit) as caught:
        read_settings([])
    assert caught.value.code == 2
    assert "--workers (XUANZANG_WORKERS): Input should be a valid integer" in capsys.readouterr().err


def test_every_invalid_value_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_settings(["--workers=-1", "--log-level=loud"])
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_an_unknown_flag_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read_settings(["--bogus"])
    assert caught.value.code == 2
    assert "unrecognized arguments: --bogus" in capsys.readouterr().err


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


def test_help_shows_no_types_of_python(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        read_settings(["--help"])
    flags = capsys.readouterr().out.split("\noptions:\n", 1)[1]
    shown = {" ".join(line.split()[:2]) for line in flags.splitlines() if line.startswith("  --")}
    assert {"--models PATH", "--address HOST:PORT", "--workers N", "--drain-timeout-seconds SECONDS"} <= shown
    assert not {flag for flag in shown if flag.split()[1] in {"int", "float", "str", "Path"}}


def test_help_groups_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_settings(["--help"])
    shown = capsys.readouterr().out
    assert shown.startswith("usage: xuanzang serve [OPTION ...]\n")
    _, *groups = shown.split("\n\n")
    heads = [lines[0] for group in groups if (lines := group.splitlines()) and lines[-1].startswith(" ")]
    assert heads[1:] == [
        "The folder of the models and the listening addresses:",
        "Use of the machine, and limits on requests:",
        "Rules for the live version of a model:",
        "Limits on messages, RPCs, streams and connections:",
        "Limits on how many explanations are made, and on their size:",
        "Settings of who may call:",
        "Logs, traces, TLS and the stop of the server:",
    ]


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
    tmp_path: Path, flags: list[str], expected: bool | str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    arguments = [f"--models={tmp_path}", *(flag.replace("FILE", str(tmp_path / "file")) for flag in flags)]
    if isinstance(expected, bool):
        assert read_settings(arguments).admits_anonymous is expected
    else:
        with pytest.raises(SystemExit):
            read_settings(arguments)
        assert expected in capsys.readouterr().err


def test_a_probe_needs_no_say_on_who_may_call(tmp_path: Path) -> None:
    assert read_settings([f"--models={tmp_path}", "--address=0.0.0.0:1", "--probe"]).probe


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(settings_module, "find_spec", find_nothing)


@pytest.mark.usefixtures("without_extras")
def test_tracing_without_its_packages_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read_settings(["--tracing"])
    assert caught.value.code == 2
    assert "--tracing needs OpenTelemetry" in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
def test_tracing_over_another_protocol_than_grpc_is_refused(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "http/protobuf")
    with pytest.raises(SystemExit):
        read_settings(["--tracing"])
    assert f"{variable} must be grpc" in capsys.readouterr().err
    assert not read_settings([]).tracing


def test_limits_of_models_are_read_by_name() -> None:
    settings = read_settings(["--model-workers=zh-en=1, en-zh=2", "--model-memory-mb=zh-en=500"])
    assert settings.limits_of("zh-en") == ModelLimits(workers=1, memory_bytes=500_000_000)
    assert settings.limits_of("en-zh") == ModelLimits(workers=2)
    assert settings.limits_of("de-en") == UNLIMITED


@pytest.mark.parametrize("limits", ["zh-en", "zh-en=0", "zh-en=1,zh-en=2", "=3", "zh-en=1=2"])
def test_limits_of_models_that_are_not_valid_are_refused(limits: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_settings([f"--model-workers={limits}"])
    assert "--model-workers" in capsys.readouterr().err


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


@pytest.mark.parametrize("flags", [["--admin-address=0.0.0.0:1"], ["--admin-address=1", "--no-admin-anonymous"]])
def test_an_admin_address_that_nobody_may_use_ends_the_start(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read_settings(flags)
    assert "keys of the role admin" in capsys.readouterr().err
