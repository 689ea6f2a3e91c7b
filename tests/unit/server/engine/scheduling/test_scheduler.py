from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.engine.scheduling.virtual_server import Unread

from xuanzang.server.engine.errors import DeadlineExceededError, DrainingError, OverloadedError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.decide import Asked, Decision
from xuanzang.server.engine.scheduling.forecast import predicted_cost, predicted_target_tokens
from xuanzang.server.engine.scheduling.queue import COMMON
from xuanzang.server.engine.scheduling.request import CallContext, FlowKey, QueuedSentence, Request
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import NO_CALLER, CallerId, DecodingOptions


class Queue:
    """A scheduler whose sentences are known by their lengths; with beam size 1 each costs twice its length."""

    def __init__(self, scheduler: Scheduler, model: LoadedModel, options: DecodingOptions) -> None:
        self.scheduler = scheduler
        self._model = model
        self._options = options
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
        sentences = [self._model.sentence((5,) * length, self._options) for length in lengths]
        request = Request(context, sentences, Unread())
        self.scheduler.submit(request, follows=follows)
        return request

    def work(self, length: int, *, seconds: float, in_batch: float = 0.0) -> None:
        """Measure a sentence, of twice the cost of its length, as the work of one worker."""
        forecast, sentence = self.scheduler._state.forecast, self._model.sentence((5,) * length, self._options)
        tokens = predicted_target_tokens(sentence)
        forecast.record(tokens, tokens, in_batch, rows=1, is_whole=True)
        forecast.record_work(predicted_cost(sentence), seconds)

    def require(self, cost: int, *, deadline: float = math.inf, accepts_part: bool = False) -> None:
        asked = Asked(FlowKey(NO_CALLER), cost, accepts_part=accepts_part)
        self.scheduler.require_admission(asked, useful_until=deadline)

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
    options = DecodingOptions(
        beam_size=1, num_hypotheses=1, length_penalty=1.0, min_target_length=0, max_target_length=None
    )

    def make(workers: int = 2, **settings: Any) -> Queue:
        scheduler = Scheduler(EngineSettings(**settings), workers=workers)
        return Queue(scheduler, model, options)

    return make


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


async def test_sentences_join_at_once_while_there_is_room_for_all(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1, max_batch_sentences=8)
    queue.submit(*[3] * 7)
    assert queue.take() == [3] * 7
    queue.submit(4)
    assert queue.take() == [4]
    assert queue.take() == []


async def test_a_crowd_joins_in_groups_of_a_quarter_of_a_batch(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1, max_batch_sentences=8)
    queue.submit(*[3] * 20)
    assert queue.take() == [3] * 8
    queue.leave(0, running=7)
    assert queue.take() == []
    queue.leave(0, running=6)
    assert queue.take() == [3, 3]


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
    with pytest.raises(OverloadedError):
        queue.submit(2)
    queue.scheduler.close(gone, "cancelled")
    queue.submit(10)
    assert queue.take() == [10]


async def test_a_caller_may_have_as_much_waiting_as_it_leaves_free(make_queue: MakeQueue) -> None:
    queue = make_queue(max_queue_tokens=80)
    queue.submit(*[5] * 4, caller="many")
    with pytest.raises(OverloadedError, match=r"40 of at most 80 tokens wait, 40 of them from this caller, .* need 10"):
        queue.submit(5, caller="many")
    queue.submit(5, 5, caller="other")
    with pytest.raises(OverloadedError):
        queue.submit(5, caller="other")
    queue.submit(2, 2, caller="third")


async def test_a_full_queue_gives_the_measured_time_until_there_is_room(make_queue: MakeQueue) -> None:
    queue = make_queue(max_queue_tokens=100)
    queue.submit(20)
    with pytest.raises(OverloadedError) as refusal:
        queue.submit(20)
    assert refusal.value.retry_after_seconds == 1.0  # nothing has been measured
    queue.work(25, seconds=2.0)
    with pytest.raises(OverloadedError) as refusal:
        queue.submit(20)
    # 60 tokens too many: 80 of the caller, and 20 less free than it may have. Two workers of 25 a second.
    assert math.isclose(refusal.value.retry_after_seconds, 1.2)


async def test_a_request_that_cannot_begin_before_its_deadline_is_refused(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(5, seconds=10.0)
    queue.submit(100)
    with pytest.raises(OverloadedError, match="132 tokens come first") as refusal:
        queue.submit(1, deadline=time.monotonic() + 30)
    # 134 tokens of a second each are done 104 s after the deadline.
    assert refusal.value.retry_after_seconds == pytest.approx(104, abs=1)
    queue.submit(1, deadline=time.monotonic() + 30, caller="newcomer")
    queue.submit(1, deadline=time.monotonic() + 3000)


async def test_the_own_cost_of_a_request_counts_against_its_deadline(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(5, seconds=10.0)
    queue.submit(1, caller="other")
    queue.submit(10, deadline=time.monotonic() + 30)
    with pytest.raises(OverloadedError):
        queue.submit(*[10] * 2, deadline=time.monotonic() + 30, caller="third")


async def test_the_time_in_a_batch_counts_against_the_deadline(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(5, seconds=0.001, in_batch=50.0)
    queue.submit(5, caller="other")
    with pytest.raises(OverloadedError):
        queue.submit(5, deadline=time.monotonic() + 30)
    queue.submit(2, deadline=time.monotonic() + 30)


async def test_a_request_of_which_a_part_is_of_use_need_only_be_begun_in_time(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(5, seconds=10.0)
    queue.submit(1, caller="other")
    soon = time.monotonic() + 30
    queue.require(100, deadline=soon, accepts_part=True)
    with pytest.raises(OverloadedError):
        queue.submit(100, deadline=soon)
    queue.submit(100, deadline=soon + 1, cutoff=soon)
    with pytest.raises(OverloadedError):
        queue.require(100, deadline=soon, accepts_part=True)
    with pytest.raises(OverloadedError):
        queue.submit(1, deadline=soon + 1, cutoff=soon)


async def test_a_worker_without_sentences_waits_no_longer_than_asked(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    assert queue.take_or_idle() == []
    queue.submit(3)
    assert queue.take_or_idle() == [3]


async def test_a_request_past_its_deadline_is_expired_and_not_overload(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    with pytest.raises(DeadlineExceededError):
        queue.submit(3, deadline=time.monotonic() - 1)


async def test_idle_workers_try_any_deadline(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(5, seconds=1000.0, in_batch=1000.0)
    queue.submit(5, deadline=time.monotonic() + 60)


async def test_early_refusal_needs_no_more_than_a_minimum_cost(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(5, seconds=10.0)
    queue.submit(100)
    queue.require(1)
    with pytest.raises(OverloadedError):
        queue.require(1, deadline=time.monotonic() + 30)


async def test_the_second_part_of_an_accepted_request_is_accepted(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1, max_queue_tokens=10)
    queue.submit(4)
    queue.submit(5, follows=True)
    # It has waited already.
    assert queue.take() == [5, 4]


async def test_a_blank_request_is_never_overload(make_queue: MakeQueue) -> None:
    queue = make_queue(max_queue_tokens=20)
    queue.submit(10)
    queue.require(0)
    with pytest.raises(OverloadedError):
        queue.require(1)


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


async def test_no_request_is_accepted_after_stopping(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.scheduler.stop()
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
    queue.require(20, deadline=time.monotonic() + 30.0)
    with pytest.raises(OverloadedError):
        queue.require(20, deadline=time.monotonic() + 0.5)


async def test_an_rpc_is_refused_unread_only_if_nothing_could_be_begun_in_time(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(50, seconds=1.0)
    queue.submit(50)
    assert queue.take() == [50]
    # 100 tokens take a second. Like the last one it would not be done in time, but a part may be enough.
    with pytest.raises(OverloadedError):
        queue.require(100, deadline=time.monotonic() + 0.9)
    queue.require(100, deadline=time.monotonic() + 0.9, accepts_part=True)
    queue.scheduler.require_time(NO_CALLER, 0.9)
    queue.submit(50)
    queue.scheduler.require_time(NO_CALLER, 2.0)
    with pytest.raises(OverloadedError):
        queue.scheduler.require_time(NO_CALLER, 0.9)


async def test_an_unread_rpc_is_taken_to_be_as_small_as_any_of_the_last_requests(make_queue: MakeQueue) -> None:
    queue = make_queue(workers=1)
    queue.work(50, seconds=1.0)
    queue.submit(50)
    queue.take()
    queue.submit(50, caller="other")
    # Before as many tokens of the other caller are taken as it asks for.
    with pytest.raises(OverloadedError):
        queue.scheduler.require_time(NO_CALLER, 0.9)
    queue.submit(5, caller="third")
    queue.scheduler.require_time(NO_CALLER, 0.9)


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
    queue.scheduler.require_time(NO_CALLER, math.inf)
    queue.submit(4)
    queue.take()
    queue.submit(4)
    with pytest.raises(OverloadedError, match="the queue is full"):
        queue.submit(4)
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


@pytest.mark.parametrize("event", ["submit", "cancel", "wake", "stop"])
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
    else:
        queue.scheduler.stop()
    assert interrupts[0].is_set


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
    queue.submit(7)
    assert not any(interrupt.is_set for interrupt in interrupts)


async def test_each_sentence_wakes_an_idle_worker_and_does_not_interrupt_its_steps(
    make_queue: MakeQueue,
) -> None:
    queue = make_queue(workers=3)
    taking = [asyncio.create_task(asyncio.to_thread(queue.take, worker)) for worker in range(3)]
    while len(queue.scheduler._changed._waiters) < 3:  # type: ignore[attr-defined]  # noqa: ASYNC110 - they cannot tell
        await asyncio.sleep(0)
    queue.submit(3, 3)
    queue.submit(3)
    assert await asyncio.gather(*taking) == [[3]] * 3
    assert not any(interrupt.is_set for interrupt in queue.scheduler.interrupts)


async def test_other_memory_of_a_worker_interrupts_nobody_while_no_sentence_waits_for_it(
    make_queue: MakeQueue,
) -> None:
    queue = make_queue(workers=2, max_batch_sentences=1)
    request = queue.submit(3, 4, 5)
    assert queue.take(0)
    assert queue.take(1)
    queue.scheduler.hold(0, request.model, COMMON, {request.sentences[0].shape: 2})
    assert not any(interrupt.is_set for interrupt in queue.scheduler.interrupts)


async def test_an_answered_request_interrupts_nobody(make_queue: MakeQueue) -> None:
    queue = make_queue()
    answered = queue.submit(3)
    assert queue.take() == [3]
    queue.take_or_idle()
    queue.scheduler.close(answered, None)
    assert not queue.scheduler.interrupts[0].is_set
