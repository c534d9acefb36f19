"""Many requests at once: each step runs the model over whatever is there, and keeps a record of it.

add_request -> Scheduler.schedule -> Runner.run -> choose tokens -> Scheduler.advance -> ...
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter_ns

import torch

from inferlab import cost
from inferlab.engine.output import Output
from inferlab.engine.placement import checked_ids, free_bytes
from inferlab.engine.request import Completion, Piece, Request, SamplingParams
from inferlab.engine.runner import Runner
from inferlab.engine.sampler import Sampler
from inferlab.engine.scheduler import SCHEDULERS, Batch, Limits, Policy, Scheduled, Scheduling
from inferlab.errors import InferlabError
from inferlab.kv_cache.blocks import BlockManager
from inferlab.kv_cache.paged import PagedCache
from inferlab.model.llama import Llama
from inferlab.model.tokenizer import Tokenizer

KEPT_STEPS = 100_000  # trace entries of the past
TOKENS_EACH = 256  # room in the default pool for each request that may run


@dataclass(frozen=True)
class EngineOptions:
    """How an engine is laid out; the limits are explained in `Limits`.

    num_blocks, block_size: the pool; None holds one text of the model's whole context, or 256
        tokens for each running request, whichever is more.
    policy: "fcfs" (first come, first served) or "priority" (the lower number first).
    scheduling: "continuous", or "static" as the baseline.
    prefix_cache: keep blocks of finished texts, and find them again.
    """

    max_num_seqs: int = 64
    max_num_batched_tokens: int = 1024
    max_num_waiting: int = 4096
    num_blocks: int | None = None
    block_size: int = 16
    policy: Policy = "fcfs"
    scheduling: Scheduling = "continuous"
    prefix_cache: bool = True


@dataclass(frozen=True)
class Step:
    """One step, as a timeline draws it. `ran` holds (request_id, num_new_tokens, phase)."""

    start_ns: int
    duration_ns: int
    forward_ns: int  # of it, in the model
    ran: tuple[tuple[str, int, str], ...]
    preempted: tuple[str, ...]
    num_blocks_used: int
    num_waiting: int


@dataclass
class Live:
    """A request that the engine knows, with its output and what chooses its tokens."""

    request: Request
    output: Output
    sampler: Sampler
    pieces: deque[Piece] = field(default_factory=deque)  # not yet read


class Engine:
    """Serves many requests with one model. Not for several threads at a time."""

    def __init__(
        self, model: Llama, tokenizer: Tokenizer, options: EngineOptions | None = None
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.options = chosen = options or EngineOptions()
        if chosen.scheduling not in SCHEDULERS:
            known = ", ".join(SCHEDULERS)
            raise InferlabError(f"no scheduling {chosen.scheduling!r}. There are: {known}.")
        limits = Limits(chosen.max_num_seqs, chosen.max_num_batched_tokens, chosen.max_num_waiting)
        scaling = model.config.rope_scaling
        if scaling is not None and scaling.kind == "dynamic":
            raise InferlabError(
                "dynamic rope scaling turns each text by its own length, which a batch cannot; "
                "generate one text at a time."
            )
        num_blocks = default_num_blocks(model, chosen)
        self.blocks = BlockManager(num_blocks, chosen.block_size, prefix_cache=chosen.prefix_cache)
        self.scheduler = SCHEDULERS[chosen.scheduling](self.blocks, limits, chosen.policy)
        place = (model.dtype, model.device)
        self.runner = Runner(model, PagedCache(model.config, num_blocks, chosen.block_size, *place))
        self.steps: deque[Step] = deque(maxlen=KEPT_STEPS)
        self._live: dict[str, Live] = {}
        self._arrivals = count()

    @property
    def has_work(self) -> bool:
        return self.scheduler.has_work

    def add_request(
        self, prompt_ids: Sequence[int], params: SamplingParams | None = None, priority: int = 0
    ) -> str:
        """Put a request in line and return its id.

        Raises InferlabError for a prompt that can never run, and when the line is full.
        """
        params = params or SamplingParams()
        ids = checked_ids(prompt_ids, self.model.config.vocab_size)
        output = Output(self.model.config, self.tokenizer, ids, params)
        self._check_fits(len(ids), output.limit)
        arrival = next(self._arrivals)
        request = Request(f"request-{arrival}", ids, params, priority, arrival)
        self.scheduler.add(request)
        sampler = Sampler(params, ids, self.model.device)
        self._live[request.request_id] = Live(request, output, sampler)
        return request.request_id

    def step(self) -> Step:
        """Compute one step; nobody may be there to run, which is an empty one."""
        start_ns = perf_counter_ns()
        batch = self.scheduler.schedule()
        ran = tuple(named(part) for part in batch.scheduled)
        forward_ns = self._run(batch) if batch.scheduled else 0
        step = Step(
            start_ns,
            perf_counter_ns() - start_ns,
            forward_ns,
            ran,
            tuple(request.request_id for request in batch.preempted),
            self.blocks.num_used,
            len(self.scheduler.waiting),
        )
        self.steps.append(step)
        return step

    def abort(self, request_id: str) -> None:
        """Drop a request at any moment; one that is over or unknown is left as it is."""
        live = self._live.pop(request_id, None)
        if live is not None and not live.request.is_over:
            self.scheduler.abort(live.request)
            live.output.close("cancelled")

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams | None = None
    ) -> list[Completion]:
        """Answer all prompts together; the completions stand in the prompts' order."""
        added: list[str] = []
        try:
            for prompt in prompts:
                added.append(self.add_request(prompt, params))
            while any(not self._live[name].request.is_over for name in added):
                self.step()
            return [self._live[name].output.completion() for name in added]
        finally:
            for name in added:
                self.abort(name)

    def stream(
        self, prompt_ids: Sequence[int], params: SamplingParams | None = None
    ) -> Iterator[Piece]:
        """Yield one answer's pieces; leaving early aborts it. Other requests run along."""
        name = self.add_request(prompt_ids, params)
        live = self._live[name]
        try:
            while live.pieces or not live.request.is_over:
                if not live.pieces:
                    self.step()
                    continue
                yield live.pieces.popleft()
        finally:
            self.abort(name)

    def _check_fits(self, num_prompt_tokens: int, limit: int) -> None:
        """Alone in the pool, the request must reach its end: else it could only wait forever."""
        needed = self.blocks.blocks_for(num_prompt_tokens + limit - 1)  # the last is never read
        if needed > self.blocks.num_blocks:
            raise InferlabError(
                f"{num_prompt_tokens} prompt tokens and up to {limit} new ones need {needed} "
                f"blocks; the KV cache has {self.blocks.num_blocks} of {self.blocks.block_size} "
                "tokens. Shorten the prompt, lower max_tokens, or raise num_blocks."
            )

    def _run(self, batch: Batch) -> int:
        """The model's pass and what follows from it; returns the pass's nanoseconds."""
        start_ns = perf_counter_ns()
        try:
            done, logits = self.runner.run(batch, self.blocks.block_tables)
            forward_ns = perf_counter_ns() - start_ns
            tokens = [] if logits is None else self._choose(done, logits)
        except BaseException as error:
            self._fail([part.request for part in batch.scheduled], error)
            raise
        self.scheduler.advance(batch)
        for request, token in zip(done, tokens, strict=True):
            self._append(self._live[request.request_id], token)
        return forward_ns

    def _choose(self, requests: Sequence[Request], logits: torch.Tensor) -> list[int]:
        """One token for each row of logits; all greedy ones in one operation."""
        likeliest: list[int] = logits.argmax(-1).tolist()
        return [
            likeliest[i] if is_plain(request.params) else self._sampler(request)(logits[i])
            for i, request in enumerate(requests)
        ]

    def _sampler(self, request: Request) -> Sampler:
        return self._live[request.request_id].sampler

    def _append(self, live: Live, token: int) -> None:
        live.request.token_ids.append(token)
        live.pieces.append(live.output.take(token))
        if live.output.is_complete:
            self.scheduler.finish(live.request)
            live.output.close("ok", num_cached_tokens=live.request.num_cached_tokens)

    def _fail(self, requests: Sequence[Request], error: BaseException) -> None:
        """The step broke: its requests end, their blocks come back, the others go on."""
        for request in requests:
            self.scheduler.abort(request)
            self._live[request.request_id].output.close("failed", repr(error))


def default_num_blocks(model: Llama, options: EngineOptions) -> int:
    """As `EngineOptions` says, within a quarter of the memory that is free."""
    if options.num_blocks is not None or options.block_size < 1:
        return options.num_blocks or 0
    config, size = model.config, options.block_size
    block_bytes = cost.kv_bytes_per_token(config, dtype=model.dtype) * size
    wanted = -(-max(config.max_model_len, TOKENS_EACH * options.max_num_seqs) // size)
    free = free_bytes(model.device)
    return wanted if free is None else max(1, min(wanted, free // 4 // block_bytes))


def is_plain(params: SamplingParams) -> bool:
    """Whether the likeliest token is the one: neither drawn nor penalized."""
    return params.temperature == 0 and params.repetition_penalty == 1


def named(part: Scheduled) -> tuple[str, int, str]:
    """Who runs, how many tokens, and in which phase."""
    request = part.request
    known = request.num_computed_tokens + 1 == request.num_tokens and request.num_output_tokens
    return request.request_id, part.num_new_tokens, "decode" if known else "prefill"
