"""The commands `xuanzang serve` and `keys`."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from xuanzang.command.parser import fail, say
from xuanzang.command.settings import read_flags
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import find_bundles
from xuanzang.server.engine.errors import EngineError
from xuanzang.server.keys_command import run_keys_command
from xuanzang.server.member import VARIABLE
from xuanzang.server.published import EVERY_PAIR, HubError, default_repository, is_student_name, published_bundles
from xuanzang.server.settings import PREFIX, PROGRAM, ServeCommand, Settings
from xuanzang.serving import event_loop

_LOGGER = logging.getLogger("xuanzang.server")

_SWITCH_SECONDS = 0.001
_MEMORY_OF_MANY = "2GB"
"""Memory for the weights of all models where one name stands for many."""
# Of a clone, or of a wheel.
_BUNDLED = (Path(__file__).parents[3] / "models", Path(sys.prefix) / "share" / "xuanzang" / "models")
_BETTER = "`xuanzang models available` lists better ones, `xuanzang serve NAME` pulls and serves one"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command by its arguments, or serve by those of the process; 0 after a drain, or if all is well, else 1."""
    command, *flags = ["serve", *sys.argv[1:]] if arguments is None else arguments
    if command == "keys":
        return run_keys_command(flags, os.environ)
    if command == "serve":
        return _run_server(flags)
    # Installed entry points may name commands of another version.
    return fail(f"xuanzang {command}", "xuanzang-server has no such command; install it again")


def _run_server(flags: Sequence[str]) -> int:
    settings = read_flags(ServeCommand, flags, program=PROGRAM, variables=PREFIX)
    if settings.probe:
        from xuanzang.server.probe import probe  # noqa: PLC0415 - the parent of several servers needs no gRPC

        return 0 if probe(settings) else 1
    # Until `keep_heap`: almost everything that is made at the start stays.
    gc.disable()
    # Containers probe every few seconds, so imports that only a server needs come later.
    from xuanzang.server.logs import configure_logging  # noqa: PLC0415

    try:
        settings = _with_models(settings)
    except HubError as error:
        return fail(PROGRAM, str(error), status=1)

    # Until the server takes signals itself; USR1 and USR2 mean nothing to it, and would end it, unless they are a
    # profiler's, which runs it in its process.
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.SIG_IGN)
    configure_logging(level=settings.log_level, log_format=settings.log_format)
    member = os.environ.pop(VARIABLE, None)
    if member is None:
        _LOGGER.info("settings", extra=settings.model_dump(mode="json"))
    try:
        if member is None and settings.process_count > 1:
            from xuanzang.server.processes import supervise  # noqa: PLC0415 - as above

            return supervise(settings, flags)
        if member is None and settings.advised_processes > 1:
            _LOGGER.warning(
                "one process uses about three cores: --processes auto uses all",
                extra={"advised_processes": settings.advised_processes},
            )
        event_loop.run(_serve(settings, member))
    except (BundleError, EngineError, OSError) as error:
        _LOGGER.error("cannot serve", extra={"reason": str(error)})  # noqa: TRY400 - the reason is enough
        return 1
    return 0


def _with_models(settings: ServeCommand) -> ServeCommand:
    """Pull the named models, or raise HubError, and return the settings with the folder to serve."""
    named = "models" in settings.model_fields_set
    if settings.pull:
        repository = settings.models if named else default_repository(os.environ)
        changed: dict[str, object] = {"models": repository}
        # The parent of several servers has pulled for them.
        for model in settings.pull if VARIABLE not in os.environ else ():
            before_pull = (lambda: None) if settings.yes else partial(_agree, model, repository)
            bundles = published_bundles(model, repository, say, before_pull=before_pull)
            if len(bundles) > 1 and not settings.on_demand:
                changed["model_memory"] = _MEMORY_OF_MANY
        if "model_memory" in changed:
            say(f"models are loaded by their first requests: --model-memory {_MEMORY_OF_MANY} unless you set another")
        # Firefox's models are all with English: two of them given together serve what lies between their languages.
        are_many = sum(map(is_student_name, settings.pull)) > 1 or EVERY_PAIR in settings.pull
        if are_many and "pivot" not in settings.model_fields_set:
            changed["pivot"] = "en"
        return settings.model_copy(update=changed)
    if named or settings.models.is_dir():
        return settings
    pulled = default_repository(os.environ)
    if _has_bundles(pulled):
        return settings.model_copy(update={"models": pulled})
    if bundled := next(filter(_has_bundles, _BUNDLED), None):
        say(f"serving the bundled models, which are small; {_BETTER}")
        return settings.model_copy(update={"models": bundled})
    raise HubError(f"there are no models, neither in ./models nor in {pulled}; {_BETTER}")


def _agree(model: str, repository: Path) -> None:
    """Ask the user for a pull; raise HubError if that is declined, or without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise HubError(f"{model} is not in {repository}: --yes pulls it, or `xuanzang pull {model}` before")
    sys.stderr.write(f"xuanzang: {model} is not in {repository}. Pull it? [Y/n] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
        raise HubError(f"{model} was not pulled")


def _has_bundles(folder: Path) -> bool:
    try:
        return bool(find_bundles(folder))
    except BundleError:
        return False


async def _serve(settings: Settings, member: str | None) -> None:
    # Workers come back from onnxruntime many times a step, and each time a busy event loop may keep the interpreter to
    # itself for so long; 5 ms, which is usual, are as long as a step.
    sys.setswitchinterval(_SWITCH_SECONDS)
    from xuanzang.server.bootstrap import bootstrap  # noqa: PLC0415
    from xuanzang.server.lifecycle import raise_descriptor_limit  # noqa: PLC0415

    raise_descriptor_limit()
    await bootstrap(settings, member).run()


if __name__ == "__main__":
    raise SystemExit(main())
