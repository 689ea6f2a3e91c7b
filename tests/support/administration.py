"""The administration of a server that a test runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.client import AsyncTranslationClient

Administration = Any
"""`ModelServiceAsyncStub`."""


@asynccontextmanager
async def administered(running: Any) -> AsyncIterator[tuple[AsyncTranslationClient, Administration]]:
    """Open a client of a running server, and a stub of its administration service."""
    address = f"127.0.0.1:{running.server.admin.port}"
    async with AsyncTranslationClient(running.address) as client, grpc.aio.insecure_channel(address) as channel:
        yield client, admin_pb2_grpc.ModelServiceStub(channel)


async def version_when(admin: Administration, version: str, holds: Callable[[pb.Model], object]) -> pb.Model:
    """Ask for a version until a condition holds."""
    while True:
        answer: pb.ListModelsResponse = await admin.ListModels(pb.ListModelsRequest())
        for model in answer.models:
            if model.version == version and holds(model):
                return model
