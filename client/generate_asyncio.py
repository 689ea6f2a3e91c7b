"""Writes the asyncio client from the blocking one; `make check` says whether it is written.

    python client/generate_asyncio.py [--check]

The two differ in what awaits and in some types: a pair of texts for each difference, which must occur. So a method of
the blocking client is also the asyncio client's once it is generated.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

SOURCES = Path(__file__).parent / "src" / "xuanzang" / "client"
_TIMEOUTS = (
    "# ruff: noqa: ASYNC109 - these timeouts are sent to the server as deadlines, which asyncio.timeout cannot do"
)
_NOTE = "# Written by client/generate_asyncio.py from {}: change that file, and run the script."
_GENERATORS = ("translate_progressively", "translate_stream")
"""Methods that return generators, and so are not awaited."""
_PRIVATE = "_read|_repeat|_translate_pending"
"""Private methods that call a server."""
_CLIENT = (
    ('"""Blocking client."""', '"""Client for asyncio."""'),
    ("import Iterable, Iterator, Sequence", "import AsyncGenerator, AsyncIterable, Iterable, Sequence"),
    ("_calls.blocking import BlockingCalls", "_calls.aio import AsyncCalls"),
    ("_methods.documents import DocumentCalls", "_methods.aio_documents import AsyncDocumentCalls"),
    ("_methods.glossaries import GlossaryCalls", "_methods.aio_glossaries import AsyncGlossaryCalls"),
    ("_methods.stream import BlockingStream", "_methods.aio_stream import AsyncStream"),
    (
        "class TranslationClient(DocumentCalls, GlossaryCalls)",
        "class AsyncTranslationClient(AsyncDocumentCalls, AsyncGlossaryCalls)",
    ),
    (
        '''"""Client of one or several xuanzang servers; threads may share it.

    A call that a server did not answer is made again, on another address if there is one, within its timeout;
    client/README.md says when.
''',
        '''"""Asyncio client of one or several xuanzang servers; tasks of one event loop may share it.

    Create it while the event loop is running. A call that a server did not answer is made again, on another address if
    there is one, within its timeout; client/README.md says when.
''',
    ),
    ("called by the thread that waits", "called by the task that waits"),
    ("read by another thread. An exception", "read by another task. An exception"),
    ("_kind = BlockingCalls", "_kind = AsyncCalls"),
    ("BlockingStream(", "AsyncStream("),
    ("def __enter__(", "async def __aenter__("),
    ("def __exit__(", "async def __aexit__("),
    ("self._calls.close()", "await self._calls.close()"),
    ("Iterator[ProgressiveTranslation]", "AsyncGenerator[ProgressiveTranslation, None]"),
    ("Iterator[StreamedTranslation]", "AsyncGenerator[StreamedTranslation, None]"),
    ("texts: Iterable[str],", "texts: Iterable[str] | AsyncIterable[str],"),
    ("read_parts", "aio_read_parts"),
    ("whole(parts)", "whole([part async for part in parts])"),
    # An awaitable cannot be subscripted.
    (
        "return self.translate([text], timeout=timeout, **options)[0]",
        "return (self.translate([text], timeout=timeout, **options))[0]",
    ),
)
_GLOSSARIES = (
    ("for the blocking client", "for the asyncio client"),
    ("_calls.blocking import BlockingCalls", "_calls.aio import AsyncCalls"),
    ("(ConnectedClient[BlockingCalls])", "(ConnectedClient[AsyncCalls])"),
    ("class GlossaryCalls", "class AsyncGlossaryCalls"),
    ("of a blocking client", "of an asyncio client"),
)
_DOCUMENTS = (
    ("for the blocking client", "for the asyncio client"),
    ("import closing", "import aclosing"),
    ("_calls.blocking import BlockingCalls", "_calls.aio import AsyncCalls"),
    ("(ConnectedClient[BlockingCalls])", "(ConnectedClient[AsyncCalls])"),
    ("_methods.stream import BlockingStream", "_methods.aio_stream import AsyncStream"),
    ("DocumentCalls", "AsyncDocumentCalls"),
    ("of a blocking client", "of an asyncio client"),
    ("BlockingStream(", "AsyncStream("),
    ("with closing(", "async with aclosing("),
    ("for item in items", "async for item in items"),
    ("def result_or_retry", "async def result_or_retry"),
    ("result = result_or_retry(", "result = await result_or_retry("),
    ("return client.translate_one", "return await client.translate_one"),
)
GENERATED = (
    ("_client.py", "_aio_client.py", _CLIENT),
    ("_methods/documents.py", "_methods/aio_documents.py", _DOCUMENTS),
    ("_methods/glossaries.py", "_methods/aio_glossaries.py", _GLOSSARIES),
)
"""Source, generated file, and the differences."""


def generated(source: str, target: str, differences: Iterable[tuple[str, str]]) -> str:
    """Return the text of a generated file.

    Args:
        source: Name of the file that it is written from.
        target: Its name.
        differences: Texts of the source, and their replacements.

    Raises:
        ValueError: A text does not occur.
    """
    text = (SOURCES / source).read_text(encoding="utf-8")
    for blocking, asynchronous in differences:
        if blocking not in text:
            raise ValueError(f"{source} has no {blocking!r}: change the differences of generate_asyncio.py")
        text = text.replace(blocking, asynchronous)
    methods = re.findall(rf"(?<!@property\n)^    def ([a-z]\w*|{_PRIVATE})\(\s*self\b", text, re.MULTILINE)
    awaited = "|".join(name for name in methods if name not in _GENERATORS)
    text = re.sub(rf"^    def ({awaited})\(", r"    async def \1(", text, flags=re.MULTILINE)
    text = re.sub(rf"\bself\.(_open_calls\.(?:apart|unary)|{awaited})\(", r"await self.\1(", text)
    heading, _, rest = text.partition("\n\n")
    text = f"{heading}\n\n{_NOTE.format(Path(source).name)}\n{_TIMEOUTS}\n\n{rest}"
    for command in (("check", "--quiet", "--fix-only", "--select=I,F401"), ("format", "--quiet")):
        ruff = [sys.executable, "-m", "ruff", *command, f"--stdin-filename={SOURCES / target}", "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return text


def main() -> int:
    """Write the files, or say which are not as they would be written."""
    changed = []
    for source, target, differences in GENERATED:
        text = generated(source, target, differences)
        if text != (SOURCES / target).read_text(encoding="utf-8"):
            changed.append(target)
            if "--check" not in sys.argv:
                (SOURCES / target).write_text(text, encoding="utf-8")
    if changed and "--check" in sys.argv:
        sys.stderr.write(f"not as `python client/generate_asyncio.py` writes them: {', '.join(changed)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
