from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.engine.scheduling.virtual_server import GREEDY, Unread

from xuanzang.server.engine.errors import DeadlineExceededError, DrainingError, OverloadedError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.decide import Asked, Decision
from xuanzang.server.engine.scheduling.forecast import predicted_cost, predicted_target_tokens
from xuanzang.server.engine.scheduling.queue import COMMON
from xuanzang.server.engine.scheduling.request import CallContext, FlowKey, QueuedSentence, Request
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import NO_CALLER, CallerId


class Queue:
    """A scheduler whose sentences are known by their lengths; with beam size 1 each costs twice its length."""

    def __init__(self, scheduler: Scheduler, model: LoadedModel) -> None:
        self.scheduler = scheduler
        self._model = model
        self._running: dict[int, list[QueuedSentence]] = {}

    def submit(
        self,
        *lengths: int,
        follows: bool = False,
        caller: str = "",
        deadline: float = math.inf,
        cutoff: float = math.inf,
    ) -> Request:
        context = CallContext(model=self._model, caller=CallerId(caller), deadline=deadline, cutoff=cutoff)
        sentences = [self._model.sentence((5,) * length, GREEDY) for length in lengths]
        request = Request(context, sentences, Unread())
        self.scheduler.submit(request, follows=follows)
        return request

    def refusal(self, *lengths: int, **context: Any) -> OverloadedError:
        with pytest.raises(OverloadedError) as refused:
            self.submit(*lengths, **context)
        return refused.value

    def work(self, length: int, *, seconds: float, in_batch: float = 0.0) -> None:
        """Measure a sentence, of twice the cost of its length, as the work of one worker."""
        forecast, sentence = self.scheduler._state.forecast, self._model.sentence((5,) * length, GREEDY)
        tokens = predicted_target_tokens(sentence)
        forecast.record(tokens, tokens, in_batch, rows=1, is_whole=True)
        forecast.record_work(predicted_cost(sentence), seconds)

    def admits(self, cost: int, *, deadline: float = math.inf, accepts_part: bool = False) -> bool:
        """Return whether a request of some cost would be let in before it is read further."""
        asked = Asked(FlowKey(NO_CALLER), cost, accepts_part=accepts_part)
        try:
            self.scheduler.require_admission(asked, useful_until=deadline)
        except OverloadedError:
            return False
        return True

    def has_time(self, seconds: float) -> bool:
        """Return whether an RPC with some seconds left would be read."""
        try:
            self.scheduler.require_time(NO_CALLER, seconds)
        except OverloadedError:
            return False
        return True

    def take_or_idle(self) -> list[int] | None:
        """Take without waiting for sentences."""
        return self._taken(0, self.scheduler.take(0, idle_seconds=0))

    def take(self, worker: int = 0) -> list[int] | None:
        return self._taken(worker, self.scheduler.take(worker))

    def _taken(self, worker: int, decision: Decision | None) -> list[int] | None:
        if decision is None:
            return None
        taken = [queued for joins in decision.joins.values() for queued in joins]
        self._running.setdefault(worker, []).extend(taken)
        return [queued.source_tokens for queued in taken]

    def leave(self, worker: int = 0, *, running: int = 0) -> None:
        """Let all sentences of a worker leave but the last ones."""
        sentences = self._running.get(worker, [])
        left = sentences[: len(sentences) - running]
        self._running[worker] = sentences[len(left) :]
        self.scheduler.leave(worker, left, seconds=0.0)


MakeQueue = Callable[..., Queue]


@pytest.fixture
def make_queue(model: LoadedModel) -> MakeQueue:
    return lambda workers=2, **settings: Queue(Scheduler(EngineSettings(**settings), workers=workers), model)


async def test_workers_that_begin_together_get_shares_that_end_together(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=2)
    queue.submit(30, 7, 37, 10, 9, 35, 8, 12)
    assert (queue.take(0), queue.take(1)) == ([37, 12, 10, 9], [30, 7, 35, 8])


async def test_a_worker_with_more_than_its_share_leaves_newcomers_to_others(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=2)
    queue.submit(*[3] * 6)
    assert queue.take(0) == [3] * 3
    assert queue.take(1) == [3] * 3
    queue.leave(1)
    queue.submit(4, 4)
    assert queue.take(0) == []
    assert queue.take(1) == [4, 4]


async def test_sentences_join_at_once_while_there_is_room_for_all_and_else_in_groups(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1, max_batch_sentences=8)
    queue.submit(*[3] * 7)
    assert queue.take() == [3] * 7
    queue.submit(4)
    assert (queue.take(), queue.take()) == ([4], [])
    queue.submit(*[5] * 20)
    # Of a crowd a quarter of a batch.
    queue.leave(0, running=7)
    assert queue.take() == []
    queue.leave(0, running=6)
    assert queue.take() == [5, 5]


async def test_newcomers_keep_to_the_limit_of_source_tokens(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1, max_join_source_tokens=25)
    queue.submit(10, 10, 10, 30, 1)
    assert [queue.take() for _ in range(4)] == [[10, 10], [10], [30], [1]]


async def test_an_idle_worker_waits_for_the_next_sentence(make_queue: MakeQueue) -> None:
    queue = make_queue()
    taking = asyncio.ensure_future(asyncio.to_thread(queue.take))
    queue.submit(4)
    assert await taking == [4]


async def test_a_closed_request_leaves_the_queue_and_makes_room(make_queue: MakeQueue) -> None:
    queue = make_queue(max_queue_tokens=40)
    gone = queue.submit(5, 4)
    assert queue.refusal(2)
    queue.scheduler.close(gone, "cancelled")
    queue.submit(10)
    assert queue.take() == [10]


async def test_a_caller_may_have_as_much_waiting_as_it_leaves_free(make_queue: MakeQueue) -> None:
    queue = make_queue(max_queue_tokens=80)
    queue.submit(*[5] * 4, caller="many")
    reason = str(queue.refusal(5, caller="many"))
    assert "40 of at most 80 tokens wait, 40 of them from this caller" in reason
    assert "is predicted to need 10;" in reason
    queue.submit(5, 5, caller="other")
    assert queue.refusal(5, caller="other")
    queue.submit(2, 2, caller="third")


async def test_a_full_queue_gives_the_measured_time_until_there_is_room(make_queue: MakeQueue) -> None:
    queue = make_queue(max_queue_tokens=100)
    queue.submit(20)
    assert queue.refusal(20).retry_after_seconds == 1.0  # nothing has been measured
    queue.work(25, seconds=2.0)
    # 60 tokens too many: 80 of the caller, and 20 less free than it may have. Two workers of 25 a second.
    assert math.isclose(queue.refusal(20).retry_after_seconds, 1.2)


async def test_a_request_that_cannot_begin_before_its_deadline_is_refused(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(5, seconds=10.0)
    queue.submit(100)
    refusal = queue.refusal(1, deadline=time.monotonic() + 30)
    assert "132 tokens come first" in str(refusal)
    # 134 tokens of a second each are done 104 s after the deadline.
    assert refusal.retry_after_seconds == pytest.approx(104, abs=1)
    queue.submit(1, deadline=time.monotonic() + 30, caller="newcomer")
    queue.submit(1, deadline=time.monotonic() + 3000)
    # Early refusal needs no more than a minimum cost.
    assert queue.admits(1)
    assert not queue.admits(1, deadline=time.monotonic() + 30)


async def test_own_cost_and_time_in_a_batch_count_against_the_deadline(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(5, seconds=10.0)
    queue.submit(1, caller="other")
    queue.submit(10, deadline=time.monotonic() + 30)
    assert queue.refusal(*[10] * 2, deadline=time.monotonic() + 30, caller="third")
    batches = make_queue(workers=1)
    batches.work(5, seconds=0.001, in_batch=50.0)
    batches.submit(5, caller="other")
    assert batches.refusal(5, deadline=time.monotonic() + 30)
    batches.submit(2, deadline=time.monotonic() + 30)


async def test_a_request_of_which_a_part_is_of_use_need_only_be_begun_in_time(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(5, seconds=10.0)
    queue.submit(1, caller="other")
    soon = time.monotonic() + 30
    assert queue.admits(100, deadline=soon, accepts_part=True)
    assert queue.refusal(100, deadline=soon)
    queue.submit(100, deadline=soon + 1, cutoff=soon)
    assert not queue.admits(100, deadline=soon, accepts_part=True)
    assert queue.refusal(1, deadline=soon + 1, cutoff=soon)


async def test_idle_workers_try_any_deadline_that_has_not_passed(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    # A worker without sentences waits no longer than asked.
    assert queue.take_or_idle() == []
    with pytest.raises(DeadlineExceededError):
        queue.submit(3, deadline=time.monotonic() - 1)
    queue.work(5, seconds=1000.0, in_batch=1000.0)
    queue.submit(5, deadline=time.monotonic() + 60)
    assert queue.take_or_idle() == [5]


async def test_the_second_part_of_an_accepted_request_and_blank_ones_are_accepted(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1, max_queue_tokens=10)
    queue.submit(4)
    queue.submit(5, follows=True)
    assert [queue.admits(cost) for cost in (0, 1)] == [True, False]
    # It has waited already.
    assert queue.take() == [5, 4]


async def test_stopping_ends_idle_workers_at_once_and_busy_ones_when_they_are_done(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=3)
    queue.submit(3)
    assert queue.take(2) == [3]
    taking = [asyncio.ensure_future(asyncio.to_thread(queue.take, worker)) for worker in range(2)]
    queue.scheduler.stop()
    assert await asyncio.gather(*taking) == [None, None]
    assert queue.take(2) == []
    queue.leave(2)
    assert queue.take(2) is None
    with pytest.raises(DrainingError):
        queue.submit(1)


async def test_work_on_sentences_that_are_given_up_counts_for_the_rate(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    # A storm of cancellations: the worker is as fast as before.
    for _ in range(20):
        queue.submit(40)
        decision = queue.scheduler.take(0)
        assert decision is not None
        [given_up] = decision.joins[COMMON]
        given_up.steps = 10
        queue.scheduler.leave(0, [given_up], seconds=0.5)
    queue.submit(40)
    assert [queue.admits(20, deadline=time.monotonic() + seconds) for seconds in (30.0, 0.5)] == [True, False]


async def test_an_rpc_is_refused_unread_only_if_nothing_could_be_begun_in_time(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(50, seconds=100.0)
    queue.submit(50)
    assert queue.take() == [50]
    # 100 tokens take 100 seconds. Like the last one it would not be done in time, but a part may be enough.
    soon = time.monotonic() + 90
    assert [queue.admits(100, deadline=soon, accepts_part=part) for part in (False, True)] == [False, True]
    assert queue.has_time(90)
    queue.submit(50)
    assert (queue.has_time(200), queue.has_time(90)) == (True, False)


async def test_an_unread_rpc_is_taken_to_be_as_small_as_any_of_the_last_requests(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(50, seconds=1.0)
    queue.submit(50)
    queue.take()
    queue.submit(50, caller="other")
    # Before as many tokens of the other caller are taken as it asks for.
    assert not queue.has_time(0.9)
    queue.submit(5, caller="third")
    assert queue.has_time(0.9)


async def test_the_wait_of_an_rpc_is_known_unless_workers_have_hardly_any_work(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=2, max_batch_sentences=2)
    assert queue.scheduler.seconds_until_begun(NO_CALLER) is None
    queue.work(50, seconds=1.0)
    queue.submit(50)
    assert queue.take() == [50]
    assert queue.scheduler.seconds_until_begun(NO_CALLER) is None
    queue.submit(50, 50)
    assert queue.take(1) == [50, 50]
    assert queue.scheduler.seconds_until_begun(NO_CALLER) == 0.0
    queue.submit(50)
    queue.take()
    queue.submit(50)
    assert (queue.scheduler.seconds_until_begun(NO_CALLER) or 0.0) > 0.4


async def test_a_full_queue_refuses_rpcs_without_a_deadline_unread(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1, max_queue_tokens=20)
    queue.submit(1)
    assert queue.has_time(math.inf)
    queue.submit(4)
    queue.take()
    queue.submit(4)
    assert "the queue is full" in str(queue.refusal(4))
    queue.submit(1)
    with pytest.raises(OverloadedError, match="the queue is full"):
        queue.scheduler.require_time(NO_CALLER, math.inf)


async def test_an_rpc_refused_unread_is_asked_to_wait_as_long_as_a_typical_request(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(10, seconds=1.0, in_batch=4.0)
    for length in (1, 30, 30):
        queue.submit(length)
    with pytest.raises(OverloadedError) as refusal:
        queue.scheduler.require_time(NO_CALLER, 1.0)
    # 122 tokens wait and a typical request has 60, at 20 tokens a second; in a batch it takes at least 12 seconds.
    assert refusal.value.retry_after_seconds > 182 / 20 + 12 - 1.0


@pytest.mark.parametrize("event", ["submit", "cancel", "wake", "stop", "answered"])
async def test_workers_in_the_midst_of_steps_are_told_of_what_has_changed(make_queue: MakeQueue, event: str) -> None:
    queue = make_queue(workers=1)
    running = queue.submit(3)
    assert queue.take() == [3]
    interrupts = queue.scheduler.interrupts
    queue.take_or_idle()
    assert not interrupts[0].is_set
    if event == "submit":
        queue.submit(4)
    elif event == "cancel":
        queue.scheduler.close(running, "cancelled")
    elif event == "wake":
        queue.scheduler.wake(0)
    elif event == "stop":
        queue.scheduler.stop()
    else:
        queue.scheduler.close(running, None)
    assert interrupts[0].is_set == (event != "answered")


async def test_a_newcomer_interrupts_only_steps_of_workers_that_may_take_it(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=2, max_batch_sentences=1)
    interrupts = queue.scheduler.interrupts
    queue.submit(3)
    assert queue.take() == [3]
    queue.take_or_idle()
    # It is for the other worker, which is idle.
    queue.submit(4)
    assert not any(interrupt.is_set for interrupt in interrupts)
    assert queue.take(0) == []
    assert queue.take(1) == [4]
    # Both are full.
    last = queue.submit(7)
    # What memory the one holds beside that is nothing to the other.
    queue.scheduler.hold(0, last.model, COMMON, {last.sentences[0].shape: 2})
    assert not any(interrupt.is_set for interrupt in interrupts)


async def test_each_sentence_wakes_an_idle_worker_and_does_not_interrupt_its_steps(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=3)
    taking = [asyncio.create_task(asyncio.to_thread(queue.take, worker)) for worker in range(3)]
    while len(queue.scheduler._changed._waiters) < 3:  # type: ignore[attr-defined]  # noqa: ASYNC110 - they cannot tell
        await asyncio.sleep(0)
    queue.submit(3, 3)
    queue.submit(3)
    assert await asyncio.gather(*taking) == [[3]] * 3
    assert not any(interrupt.is_set for interrupt in queue.scheduler.interrupts)
