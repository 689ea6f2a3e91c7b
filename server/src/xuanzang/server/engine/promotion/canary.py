"""The canary: a version that answers a share of the requests in the place of the live one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from xuanzang.server.engine.models import routing
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.types import Route

Draw = Callable[[], float]
"""Returns a random number from 0 to below 1."""


class Canary:
    """Chooses between the live version and the canary, for each request by itself.

    Callers are not told apart: behind a gateway all are one, who would have the canary always or never. A caller who
    needs the same version for all texts of a document names it.
    """

    def __init__(self, live: LiveModels, *, draw: Draw = random.random) -> None:
        """Choose among the models of a server.

        Args:
            live: Models.
            draw: Source of chance.
        """
        self._live = live
        self._draw = draw

    def diverted(self, route: Route, *, source_language: str, target_language: str) -> Route:
        """Return what a request means that names no version.

        Args:
            route: Live version.
            source_language: BCP-47 code of the request, or empty.
            target_language: BCP-47 code of the request, or empty.

        Returns:
            A route to the canary for its share of the requests, if it translates these languages; else the same route.
        """
        catalog = self._live.catalog
        canary = catalog.traffic[route.model.name].canary
        if canary is None or self._draw() >= canary.share:
            return route
        loaded = catalog.find(route.model.name, canary.version)
        if loaded is None:
            return route
        served = loaded.served(is_default=False)
        found = routing.route_to(served, source_language=source_language, target_language=target_language)
        return replace(found, instead_of=route) if found else route
