"""Who runs when: exact steps, and that no block is ever lost or shared by mistake."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from inferlab import InferlabError, SamplingParams
from inferlab.engine.request import Request
from inferlab.engine.scheduler import SCHEDULERS, Batch, Limits, Scheduler, StaticScheduler
from inferlab.kv_cache.blocks import BlockManager

PARAMS = SamplingParams(max_tokens=4)


def request(name: str, length: int, arrival: int = 0, priority: int = 0) -> Request:
    first = 1000 * (ord(name[0]) - ord("a"))
    return Request(name, list(range(first, first + length)), PARAMS, priority, arrival)


def scheduler(
    num_blocks: int = 20, size: int = 4, kind: type[Scheduler] = Scheduler, policy: Any = "fcfs",
    prefix_cache: bool = True, **limits: int,
) -> Scheduler:  # fmt: skip
    blocks = BlockManager(num_blocks, size, prefix_cache=prefix_cache)
    return kind(blocks, Limits(**{"max_num_seqs": 4, "max_num_batched_tokens": 16} | limits),
                policy)  # fmt: skip


def step(plan: Scheduler, token: int = 7) -> tuple[list[tuple[str, int]], Batch]:
    """Compute a step: who complete their text get one more token."""
    batch = plan.schedule()
    done = [part.request for part in batch.scheduled if part.is_last_chunk]
    ran = [(part.request.request_id, part.num_new_tokens) for part in batch.scheduled]
    plan.advance(batch)
    for each in done:
        each.token_ids.append(token)
    return ran, batch


def test_a_request_derives_its_counts() -> None:
    one = request("a", 5)
    assert (one.num_tokens, one.num_new_tokens, one.num_output_tokens) == (5, 5, 0)
    one.num_computed_tokens = 5
    one.token_ids += [8]
    assert (one.num_tokens, one.num_new_tokens, one.output_token_ids) == (6, 1, [8])
    assert (one.num_prompt_tokens, one.prompt_token_ids) == (5, [0, 1, 2, 3, 4])
    assert not one.is_over


def test_prompts_are_chunked_under_the_budget_and_decodes_come_first() -> None:
    plan = scheduler()
    for i, (name, length) in enumerate({"a": 6, "b": 20, "c": 5}.items()):
        plan.add(request(name, length, i))
    assert step(plan)[0] == [("a", 6), ("b", 10)]
    assert step(plan)[0] == [("a", 1), ("b", 10), ("c", 5)]
    assert step(plan)[0] == [("a", 1), ("b", 1), ("c", 1)]


def test_seats_are_limited_and_given_to_who_comes_next() -> None:
    plan = scheduler(max_num_seqs=2)
    for i, name in enumerate("abc"):
        plan.add(request(name, 2, i))
    assert step(plan)[0] == [("a", 2), ("b", 2)]
    plan.finish(plan.running[0])
    assert step(plan)[0] == [("b", 1), ("c", 2)]


def test_static_batching_lets_nobody_in_until_all_have_left() -> None:
    plan = scheduler(kind=StaticScheduler, max_num_seqs=2)
    for i, name in enumerate("abc"):
        plan.add(request(name, 12, i))
    assert step(plan)[0] == [("a", 12), ("b", 4)]  # the budget still holds
    assert step(plan)[0] == [("a", 1), ("b", 8)]
    plan.finish(plan.running[0])
    assert step(plan)[0] == [("b", 1)]
    plan.finish(plan.running[0])
    assert step(plan)[0] == [("c", 12)]


def test_the_last_in_line_is_preempted_and_resumes_with_its_text() -> None:
    plan = scheduler(num_blocks=5, prefix_cache=False)
    a, b = request("a", 5, 0), request("b", 7, 1)
    plan.add(a)
    plan.add(b)
    assert step(plan)[0] == [("a", 5), ("b", 7)]
    assert plan.blocks.block_tables == {"a": [0, 1], "b": [2, 3]}
    for _ in range(3):
        assert step(plan)[0] == [("a", 1), ("b", 1)]
    assert plan.blocks.block_tables == {"a": [0, 1], "b": [2, 3, 4]}
    ran, batch = step(plan)
    assert (ran, batch.preempted) == ([("a", 1)], [b])
    assert plan.blocks.block_tables == {"a": [0, 1, 4]}
    assert (b.status, b.num_computed_tokens, b.num_preemptions) == ("waiting", 0, 1)
    assert (plan.blocks.ref_count, plan.blocks.free) == ([1, 1, 0, 0, 1], [3, 2])
    plan.finish(a)
    assert step(plan)[0] == [("b", 11)]
    assert plan.blocks.block_tables == {"b": [3, 2, 4]}
    assert b.num_cached_tokens == 0


def test_by_priority_the_least_urgent_waits_and_is_preempted() -> None:
    plan = scheduler(num_blocks=4, policy="priority")
    low, high = request("a", 7, 0, priority=5), request("b", 4, 1, priority=1)
    plan.add(low)
    plan.add(high)
    assert plan.waiting == [high, low]
    assert step(plan)[0] == [("b", 4), ("a", 7)]
    for _ in range(2):
        ran, batch = step(plan)
    assert (ran, batch.preempted) == ([("b", 1)], [low])


def test_who_stands_last_gives_way_itself() -> None:
    plan = scheduler(num_blocks=4)
    a, b = request("a", 8, 0), request("b", 4, 1)
    plan.add(a)
    plan.add(b)
    step(plan)
    ran, batch = step(plan)
    assert (ran, batch.preempted) == ([("a", 1)], [b])


def test_a_prefix_hit_is_a_head_start() -> None:
    plan = scheduler()
    plan.add(request("a", 9, 0))
    step(plan)
    twin = Request("twin", list(range(9)), PARAMS, arrival=1)
    plan.add(twin)
    assert step(plan)[0] == [("a", 1), ("twin", 1)]
    assert twin.num_cached_tokens == 8
    assert plan.blocks.ref_count[:4] == [2, 2, 1, 1]


def test_abort_at_any_moment_gives_all_blocks_back() -> None:
    plan = scheduler(max_num_seqs=2, max_num_batched_tokens=8)
    a, b, c = (request(name, 6, i) for i, name in enumerate("abc"))
    for each in (a, b, c):
        plan.add(each)
    plan.abort(c)  # in line
    step(plan)
    plan.abort(b)  # in the middle of its prompt
    step(plan)
    plan.abort(a)  # decoding
    plan.abort(a)  # twice
    assert {each.status for each in (a, b, c)} == {"aborted"}
    assert not plan.has_work
    assert (plan.blocks.num_free, set(plan.blocks.ref_count)) == (20, {0})
    assert step(plan)[0] == []


def test_a_full_line_takes_no_more() -> None:
    plan = scheduler(max_num_waiting=1)
    plan.add(request("a", 3))
    with pytest.raises(InferlabError, match="1 requests are waiting, and no more"):
        plan.add(request("b", 3))
    step(plan)
    plan.add(request("b", 3))


def test_limits_and_policy_are_checked() -> None:
    with pytest.raises(InferlabError, match="max_num_seqs must be at least 1, not 0"):
        Limits(max_num_seqs=0)
    with pytest.raises(InferlabError, match="must be at least max_num_seqs"):
        Limits(max_num_seqs=8, max_num_batched_tokens=7)
    with pytest.raises(InferlabError, match="no policy 'lifo'"):
        scheduler(policy="lifo")


class Life(RuleBasedStateMachine):
    """Any sequence of add, step (which extends and preempts), abort and finish."""

    @initialize(
        num_blocks=st.integers(3, 12), size=st.integers(1, 4), kind=st.sampled_from([*SCHEDULERS]),
        policy=st.sampled_from(["fcfs", "priority"]), prefix_cache=st.booleans(),
        budget=st.integers(3, 20),
    )  # fmt: skip
    def begin(self, kind: str, **options: Any) -> None:
        budget = options.pop("budget")
        self.plan = scheduler(kind=SCHEDULERS[kind], max_num_seqs=3,
                              max_num_batched_tokens=budget, **options)  # fmt: skip
        self.room = self.plan.blocks.num_blocks * self.plan.blocks.block_size
        self.count = 0
        self.texts: dict[int, tuple[int, ...]] = {}  # what each block was last written with

    @rule(start=st.integers(0, 2), length=st.integers(1, 20), priority=st.integers(0, 2))
    def add(self, start: int, length: int, priority: int) -> None:
        self.count += 1
        ids = list(range(start, start + min(length, self.room - 1)))
        self.plan.add(Request(f"r{self.count}", ids, PARAMS, priority, self.count))

    @rule(token=st.integers(0, 3))
    def step(self, token: int) -> None:
        blocks, size = self.plan.blocks, self.plan.blocks.block_size
        batch = self.plan.schedule()
        assert sum(part.num_new_tokens for part in batch.scheduled) <= (
            self.plan.limits.max_num_batched_tokens
        )
        if self.plan.has_work and not batch.preempted:
            assert batch.scheduled, "there is work, and nobody ran"
        for part in batch.scheduled:
            one, table = part.request, blocks.block_tables[part.request.request_id]
            end = one.num_computed_tokens + part.num_new_tokens
            assert len(table) * size >= end
            written = range(one.num_computed_tokens // size, -(-end // size))
            assert all(blocks.ref_count[table[i]] == 1 for i in written), (
                "a shared block was written"
            )
            for i in written:
                self.texts[table[i]] = tuple(one.token_ids[: min(end, (i + 1) * size)])
            for i in range(-(-end // size)):  # whatever it reads is its own text
                whole = tuple(one.token_ids[: min(end, (i + 1) * size)])
                assert self.texts[table[i]] == whole
        done = [part.request for part in batch.scheduled if part.is_last_chunk]
        self.plan.advance(batch)
        for one in done:
            one.token_ids.append(token)
            if one.num_tokens >= self.room:
                self.plan.finish(one)

    @precondition(lambda self: self.plan.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.plan.finish(data.draw(st.sampled_from(self.plan.running)))

    @precondition(lambda self: self.plan.has_work)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.plan.abort(data.draw(st.sampled_from(self.plan.waiting + self.plan.running)))

    @invariant()
    def every_block_is_free_or_held(self) -> None:
        blocks = self.plan.blocks
        held = Counter(block for table in blocks.block_tables.values() for block in table)
        assert blocks.ref_count == [held[block] for block in range(blocks.num_blocks)]
        assert sorted([*blocks.free, *held]) == list(range(blocks.num_blocks))
        assert set(blocks.block_tables) == {one.request_id for one in self.plan.running}
        assert len(self.plan.running) <= self.plan.limits.max_num_seqs

    def teardown(self) -> None:
        if not hasattr(self, "plan"):
            return
        for one in self.plan.waiting + self.plan.running:
            self.plan.abort(one)
        assert self.plan.blocks.num_free == self.plan.blocks.num_blocks


TestLife = Life.TestCase
TestLife.settings = settings(  # 10,000 steps
    max_examples=200, stateful_step_count=50, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
