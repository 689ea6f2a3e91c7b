"""English words of which tests make sentences."""

from __future__ import annotations

WORDS = [
    *("apple", "bridge", "candle", "dragon", "engine", "forest", "garden", "hammer", "island", "jungle"),
    *("kettle", "lantern", "meadow", "needle", "orange", "pencil", "quarry", "ribbon", "saddle", "temple"),
    *("umbrella", "valley", "window", "yellow", "zebra", "anchor", "basket", "copper", "donkey"),
]
