"""Phrases that a translation must hold, compiled to an automaton in plain arrays.

Every token of a hypothesis moves it to another state, so that its phrases are known without a look at its tokens. A
phrase may have several tokenisations and several texts, and overlap others; all are followed at once, as the subsets of
a nondeterministic automaton (Rabin and Scott 1959).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from xuanzang.text.types import CONTINUES, OPENS, Variant

_CLASSES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredPhrase:
    """A phrase that a translation must hold, in any of its variants."""

    variants: tuple[Variant, ...]
    count: int = 1
    """Times that it must occur, 1 or greater."""
    is_ordered: bool = False
    """True if it may only be written after the ordered phrases before it."""

    @property
    def min_tokens(self) -> int:
        """Tokens of the shortest variant that may be written anywhere."""
        anywhere = [len(variant.ids) for variant in self.variants if not variant.guards_start]
        return min(anywhere or [len(variant.ids) for variant in self.variants])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RequiredPhrases:
    """The phrases of one sentence, compiled only for a search that requires them."""

    phrases: tuple[RequiredPhrase, ...]
    """At least one; none is another's twin."""
    classes: npt.NDArray[np.int8]
    """CONTINUES and OPENS of each token, [vocab]."""

    @property
    def tokens(self) -> int:
        """Tokens that suffice for all phrases."""
        return sum(phrase.count * phrase.min_tokens for phrase in self.phrases)

    @property
    def token_ids(self) -> list[int]:
        """All tokens of the phrases."""
        return sorted({token for phrase in self.phrases for variant in phrase.variants for token in variant.ids})

    def compiled(self) -> PhraseAutomaton:
        """Return the automaton of the phrases."""
        return compile_phrases(self.phrases, self.classes)


class StateTables(NamedTuple):
    """Facts about each state of an automaton."""

    pending: npt.NDArray[np.int16]
    """Phrases that are complete unless their last word goes on, [state, phrase]."""
    begun: npt.NDArray[np.bool_]
    """Phrases with a begun, incomplete variant, [state, phrase]."""
    rest: npt.NDArray[np.int16]
    """Tokens that each phrase lacks at the least, [state, phrase]."""
    wanted_ids: npt.NDArray[np.int64]
    """Tokens that bring phrases further, those furthest on first, [state, wanted]."""
    wanted_for: npt.NDArray[np.bool_]
    """Phrases that each of them brings further; none for padding, [state, wanted, phrase]."""
    chains: npt.NDArray[np.int64]
    """The states from each, itself included, to the end of the phrase that it is within, -1 for padding, [state, …]."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PhraseAutomaton:
    """The phrases of one sentence. State 0 is that of an empty hypothesis."""

    required: npt.NDArray[np.int16]
    """Times that each phrase must occur, those within other phrases counted, [phrase]."""
    min_tokens: npt.NDArray[np.int16]
    """Tokens of the shortest variant, [phrase]."""
    after: npt.NDArray[np.int16]
    """Phrase that must be complete before each is written, itself if there is none, [phrase]."""
    symbols: npt.NDArray[np.int16]
    """Symbol of each token, [vocab]."""
    next_states: npt.NDArray[np.int16]
    """State after each symbol, [state, symbol]."""
    gained: npt.NDArray[np.int16]
    """Row of `gains` for each symbol, [state, symbol]."""
    gains: npt.NDArray[np.int16]
    """Phrases that are complete for good, [gain, phrase]; row 0 has none."""
    states: StateTables

    @property
    def token_ids(self) -> list[int]:
        """All tokens of the phrases."""
        wanted = self.states.wanted_ids[self.states.wanted_for.any(axis=2)]
        found: list[int] = np.unique(wanted).tolist()
        return found

    @property
    def tokens(self) -> int:
        """Tokens that suffice for all phrases."""
        return int((self.required * self.min_tokens).sum())

    def occurrences(self, ids: Iterable[int]) -> npt.NDArray[np.int16]:
        """Return how often each phrase occurs in a text of some tokens, [phrase]."""
        state, found = 0, np.zeros_like(self.required)
        for token in ids:
            symbol = self.symbols[token]
            found += self.gains[self.gained[state, symbol]]
            state = self.next_states[state, symbol]
        found += self.states.pending[state]
        return found


_Item: TypeAlias = tuple[int, int]
"""Number of a variant, and tokens of it that the hypothesis ends in."""


class _State(NamedTuple):
    items: frozenset[_Item]
    is_open: bool
    """True if a word may begin here without a space."""


class _Move(NamedTuple):
    token: int | None
    """None for any token that is in no variant."""
    token_class: int
    is_open: bool
    """True if a word may begin here without a space."""
    reached: frozenset[_Item]


class _Way(NamedTuple):
    """A variant, and the number of the phrase that it writes."""

    ids: tuple[int, ...]
    guards_start: bool
    guards_end: bool
    phrase: int


def compile_phrases(phrases: Sequence[RequiredPhrase], classes: npt.NDArray[np.int8]) -> PhraseAutomaton:
    """Compile the phrases of a sentence, at least one, none another's twin; `classes`: CONTINUES and OPENS, [vocab]."""
    ways = [_Way(*variant, number) for number, phrase in enumerate(phrases) for variant in phrase.variants]
    tokens = sorted({token for way in ways for token in way.ids})
    symbols = classes.astype(np.int16)
    symbols[tokens] = np.arange(_CLASSES, _CLASSES + len(tokens))
    token_classes = [*range(_CLASSES), *classes[tokens].tolist()]
    states = _Explorer(ways, dict(zip(tokens, range(_CLASSES, len(token_classes)), strict=True)), token_classes)
    states.explore()
    min_tokens = np.array([phrase.min_tokens for phrase in phrases], np.int16)
    automaton = PhraseAutomaton(
        required=np.array([phrase.count for phrase in phrases], np.int16),
        min_tokens=min_tokens,
        after=_after(phrases),
        symbols=symbols,
        next_states=np.array(states.next_states, np.int16),
        gained=np.array(states.gained, np.int16),
        gains=np.array([[int(number in found) for number in range(len(phrases))] for found in states.gains], np.int16),
        states=_state_tables(list(states.numbers), ways, min_tokens, states.chains()),
    )
    return replace(automaton, required=_apart(automaton, phrases)) if len(phrases) > 1 else automaton


def _after(phrases: Sequence[RequiredPhrase]) -> npt.NDArray[np.int16]:
    after = np.arange(len(phrases), dtype=np.int16)
    ordered = [number for number, phrase in enumerate(phrases) if phrase.is_ordered]
    after[ordered[1:]] = ordered[:-1]
    return after


def _apart(automaton: PhraseAutomaton, phrases: Sequence[RequiredPhrase]) -> npt.NDArray[np.int16]:
    """Return how often each phrase must occur so that none stands only within another, as "Apple" in "Apple Inc".

    Every occurrence of the longer phrase brings one of the shorter, so that many more are required.
    """
    required = automaton.required.copy()
    for number, phrase in enumerate(phrases):
        within = np.min([automaton.occurrences(variant.ids) for variant in phrase.variants], axis=0)
        within[number] = 0
        required += phrase.count * within
    return required


class _Explorer:
    """Finds the states that hypotheses can reach."""

    def __init__(self, ways: Sequence[_Way], symbols: Mapping[int, int], classes: Sequence[int]) -> None:
        self._ways, self._symbols, self._classes = ways, symbols, classes
        self._starts: dict[int, list[int]] = {}
        for number, way in enumerate(ways):
            self._starts.setdefault(way.ids[0], []).append(number)
        # Most states differ in little: the same moves are made from many.
        self._moves: dict[_Move, tuple[int, frozenset[int]]] = {}
        self.numbers: dict[_State, int] = {_State(frozenset(), is_open=True): 0}
        self.gains: dict[frozenset[int], int] = {frozenset(): 0}
        self.next_states: list[list[int]] = []
        self.gained: list[list[int]] = []

    def explore(self) -> None:
        """Follow every symbol from every state."""
        found = list(self.numbers)
        for state in found:
            ended = frozenset(self._ways[way].phrase for way, done in state.items if done == len(self._ways[way].ids))
            going: dict[int, list[_Item]] = {}
            for way, done in state.items:
                if done < len(self._ways[way].ids):
                    going.setdefault(self._ways[way].ids[done], []).append((way, done + 1))
            by_class = [self._moved(_Move(None, one, state.is_open, frozenset()), ended) for one in range(_CLASSES)]
            row = [by_class[number] for number in self._classes]
            for token in self._starts.keys() | going.keys():
                symbol = self._symbols[token]
                move = _Move(token, self._classes[symbol], state.is_open, frozenset(going.get(token, ())))
                row[symbol] = self._moved(move, ended)
            self.next_states.append([number for number, _ in row])
            self.gained.append([gain for _, gain in row])
            found += list(self.numbers)[len(found) :]

    def chains(self) -> list[list[int]]:
        """Return, for each state within a phrase, the states until its end; of several phrases the one furthest on."""
        found: list[list[int]] = []
        for number, state in enumerate(self.numbers):
            within = [(done, way) for way, done in state.items if done < len(self._ways[way].ids)]
            chain, at = [], number
            if within:
                done, way = max(within)
                for token in self._ways[way].ids[done:]:
                    chain.append(at)
                    at = self.next_states[at][self._symbols[token]]
            found.append(chain)
        return found

    def _moved(self, move: _Move, ended: frozenset[int]) -> tuple[int, int]:
        """Return the numbers of the state after a token and of the completed phrases.

        `ended` are phrases that are complete in the state before unless their last word goes on.
        """
        if move not in self._moves:
            self._moves[move] = self._followed(move)
        after, complete = self._moves[move]
        if ended and not move.token_class & CONTINUES:
            complete |= ended
        return after, self.gains.setdefault(complete, len(self.gains))

    def _followed(self, move: _Move) -> tuple[int, frozenset[int]]:
        starts = self._starts.get(move.token, ()) if move.token is not None else ()
        reached = {*move.reached, *((way, 1) for way in starts if move.is_open or not self._ways[way].guards_start)}
        ended = {item for item in reached if item[1] == len(self._ways[item[0]].ids)}
        final = {item for item in ended if not self._ways[item[0]].guards_end}
        after = _State(frozenset(reached - final), is_open=bool(move.token_class & OPENS))
        complete = frozenset(self._ways[number].phrase for number, _ in final)
        return self.numbers.setdefault(after, len(self.numbers)), complete


def _state_tables(
    states: Sequence[_State], ways: Sequence[_Way], min_tokens: npt.NDArray[np.int16], chains: Sequence[list[int]]
) -> StateTables:
    """Return the entries of some states."""
    size = len(min_tokens)
    wanted = [_wanted(state, ways) for state in states]
    shape = (len(states), max(map(len, wanted)))
    tables = StateTables(
        pending=np.zeros((len(states), size), np.int16),
        begun=np.zeros((len(states), size), np.bool_),
        rest=np.repeat(min_tokens[None], len(states), axis=0),
        wanted_ids=np.full(shape, ways[0].ids[0], np.int64),
        wanted_for=np.zeros((*shape, size), np.bool_),
        chains=np.full((len(states), max(1, *map(len, chains))), -1, np.int64),
    )
    for number, state in enumerate(states):
        tables.chains[number, : len(chains[number])] = chains[number]
        for way, done in state.items:
            phrase, left = ways[way].phrase, len(ways[way].ids) - done
            (tables.begun if left else tables.pending)[number, phrase] = True
            tables.rest[number, phrase] = min(tables.rest[number, phrase], left or min_tokens[phrase])
        for column, (token, phrases) in enumerate(wanted[number].items()):
            tables.wanted_ids[number, column] = token
            tables.wanted_for[number, column, list(phrases)] = True
    return tables


def _wanted(state: _State, ways: Sequence[_Way]) -> dict[int, set[int]]:
    """Return the tokens that bring phrases further, with these phrases; those furthest on first."""
    found: dict[int, set[int]] = {}
    for number, done in sorted(state.items, key=lambda item: (-item[1], -item[0])):
        if done < len(ways[number].ids):
            found.setdefault(ways[number].ids[done], set()).add(ways[number].phrase)
    for way in ways:
        if state.is_open or not way.guards_start:
            found.setdefault(way.ids[0], set()).add(way.phrase)
    return found
