"""Responses of OpenAI's newer API: an object, or the events that build it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any


class ResponseEvents:
    """One response, whole or as a stream of events."""

    def __init__(self, call_id: str, model: str) -> None:
        """Begin a response.

        Args:
            call_id: Id of the request.
            model: Name of the model, as the caller gave it.
        """
        self._call_id = call_id
        self._model = model
        self._text = ""
        self._number = 0

    def response(self, text: str) -> dict[str, Any]:
        """Return the whole response.

        Args:
            text: Translation.
        """
        return self._response([self._item(text, "completed")], "completed")

    def begin(self) -> Iterator[str]:
        """Yield the events before the text."""
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, {"response": self._response([], "in_progress")})
        item = self._item("", "in_progress") | {"content": []}
        yield self._event("response.output_item.added", {"output_index": 0, "item": item})
        yield self._event("response.content_part.added", self._place() | {"part": _part("")})

    def part(self, delta: str) -> str:
        """Return the event of a part of the text."""
        self._text += delta
        return self._event("response.output_text.delta", self._place() | {"delta": delta, "logprobs": []})

    def end(self) -> Iterator[str]:
        """Yield the events after the text."""
        yield self._event("response.output_text.done", self._place() | {"text": self._text, "logprobs": []})
        yield self._event("response.content_part.done", self._place() | {"part": _part(self._text)})
        item = self._item(self._text, "completed")
        yield self._event("response.output_item.done", {"output_index": 0, "item": item})
        yield self._event("response.completed", {"response": self.response(self._text)})

    def _event(self, name: str, members: Mapping[str, Any]) -> str:
        data = {"type": name, "sequence_number": self._number, **members}
        self._number += 1
        return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"

    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self._call_id}", "output_index": 0, "content_index": 0}

    def _item(self, text: str, status: str) -> dict[str, Any]:
        named = {"type": "message", "id": f"msg_{self._call_id}", "status": status, "role": "assistant"}
        return named | {"content": [_part(text)]}

    def _response(self, output: list[dict[str, Any]], status: str) -> dict[str, Any]:
        return {
            "id": f"resp_{self._call_id}",
            "object": "response",
            "created_at": int(time.time()),
            "status": status,
            "model": self._model,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": False,
            "temperature": None,
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
            "usage": None,
        }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}
