"""Who computes how many tokens in the next step. Plain Python, no tensors, no clock.

The mental model: a request is a text of `num_tokens`, of which `num_computed_tokens` have their
keys and values in the cache. Every step lets the second number chase the first. When it arrives,
the step's logits give one more token, and the chase goes on. Prefill is a chase from far behind,
decode one from a single token behind; a chunk of a prompt, a prefix hit (a head start) and
preemption (back to the start) are the same chase, and need no case of their own.
"""

from bisect import insort
from dataclasses import dataclass, field
from typing import Literal

from inferlab.engine.request import Request
from inferlab.errors import InferlabError
from inferlab.kv_cache.blocks import BlockManager

Policy = Literal["fcfs", "priority"]
Scheduling = Literal["continuous", "static"]


@dataclass(frozen=True)
class Limits:
    """What a scheduler may do in one step.

    max_num_seqs: requests that run at the same time.
    max_num_batched_tokens: tokens of one forward pass, over all requests.
    max_num_waiting: requests that may stand in line.
    """

    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    max_num_waiting: int = 4096

    def __post_init__(self) -> None:
        """Refuse numbers below 1, and a budget in which not every request gets one token."""
        for name, value in self.__dict__.items():
            if value < 1:
                raise InferlabError(f"{name} must be at least 1, not {value}.")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise InferlabError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least "
                f"max_num_seqs ({self.max_num_seqs}): each running request needs one in a step."
            )


@dataclass(frozen=True)
class Scheduled:
    """One request's part of a step: its next `num_new_tokens` tokens are computed."""

    request: Request
    num_new_tokens: int

    @property
    def is_last_chunk(self) -> bool:
        """Whether the text is computed to its end after this, so that a token can be chosen."""
        return self.num_new_tokens == self.request.num_new_tokens


@dataclass(frozen=True)
class Batch:
    """A step: decodes first, then chunks of prompts. `preempted` gave up their blocks for it."""

    scheduled: list[Scheduled] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)


class Scheduler:
    """Continuous batching: requests join and leave the running batch at every step."""

    def __init__(self, blocks: BlockManager, limits: Limits, policy: Policy = "fcfs") -> None:
        if policy not in ("fcfs", "priority"):
            raise InferlabError(f"no policy {policy!r}. There are: fcfs, priority.")
        self.blocks, self.limits, self.policy = blocks, limits, policy
        self.waiting: list[Request] = []  # both in order: who comes first stands first
        self.running: list[Request] = []

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, request: Request) -> None:
        """Put a request in line; raises InferlabError when the line is full."""
        if len(self.waiting) >= self.limits.max_num_waiting:
            raise InferlabError(
                f"{len(self.waiting)} requests are waiting, and no more may "
                "(max_num_waiting). Try again when some have finished."
            )
        insort(self.waiting, request, key=self._order)

    def schedule(self) -> Batch:
        """Choose the next step. Its tokens have their blocks when this returns."""
        preempted = self._make_room()
        if not preempted:  # who just lost its blocks would only take back what it gave
            self._admit()
        return Batch(self._share_out(), preempted)

    def advance(self, batch: Batch) -> None:
        """The step was computed: its tokens are in the cache, full blocks can be found."""
        for part in batch.scheduled:
            request = part.request
            request.num_computed_tokens += part.num_new_tokens
            self.blocks.publish(request.request_id, request.token_ids, request.num_computed_tokens)

    def finish(self, request: Request) -> None:
        """The request has its last token."""
        self._remove(request)
        request.status = "finished"

    def abort(self, request: Request) -> None:
        """The request is not wanted any more, wherever it stands."""
        if not request.is_over:
            self._remove(request)
            request.status = "aborted"

    def _order(self, request: Request) -> tuple[int, int]:
        return (request.priority if self.policy == "priority" else 0, request.arrival)

    def _make_room(self) -> list[Request]:
        """A block for each token that is to come; those last in line give theirs up for it."""
        preempted = []
        for request in list(self.running):
            while request.status == "running":
                if self.blocks.extend(request.request_id, request.num_tokens):
                    break
                preempted.append(self._preempt(self.running[-1]))
        return preempted

    def _preempt(self, victim: Request) -> Request:
        """Back in line, without blocks: its text so far is computed again when it returns."""
        self._remove(victim)
        victim.status, victim.num_computed_tokens = "waiting", 0
        victim.num_preemptions += 1
        insort(self.waiting, victim, key=self._order)
        return victim

    def _admit(self) -> None:
        """From waiting to running, while there are seats, tokens of the budget, and blocks."""
        ahead = sum(request.num_new_tokens for request in self.running)
        while self.waiting and len(self.running) < self.limits.max_num_seqs:
            if ahead >= self.limits.max_num_batched_tokens or not self._start(self.waiting[0]):
                return
            ahead += self.waiting.pop(0).num_new_tokens

    def _start(self, request: Request) -> bool:
        """Give the request its blocks; False when there are too few.

        One block for each that runs stays free, so that a newcomer is not preempted at once.
        """
        cached = self.blocks.allocate(
            request.request_id, request.token_ids, keep_free=len(self.running)
        )
        if cached is None:
            return False
        if request.num_preemptions == 0:
            request.num_cached_tokens = cached
        request.status, request.num_computed_tokens = "running", cached
        insort(self.running, request, key=self._order)
        return True

    def _share_out(self) -> list[Scheduled]:
        """The budget: one token for each decode, what is left for prompts, in order."""
        decodes = [request for request in self.running if request.num_new_tokens == 1]
        prefills = [request for request in self.running if request.num_new_tokens > 1]
        left, scheduled = self.limits.max_num_batched_tokens, []
        for request in decodes + prefills:
            num_tokens = min(request.num_new_tokens, left)
            if num_tokens:
                scheduled.append(Scheduled(request, num_tokens))
            left -= num_tokens
        return scheduled

    def _remove(self, request: Request) -> None:
        if request.status == "running":
            self.running.remove(request)
            self.blocks.release(request.request_id)
        else:
            self.waiting.remove(request)


class StaticScheduler(Scheduler):
    """Static batching, the baseline: a batch forms once, and nobody joins until all have left."""

    def _admit(self) -> None:
        if self.running:
            return
        while self.waiting and len(self.running) < self.limits.max_num_seqs:
            if not self._start(self.waiting[0]):
                return
            self.waiting.pop(0)


SCHEDULERS: dict[str, type[Scheduler]] = {"continuous": Scheduler, "static": StaticScheduler}
