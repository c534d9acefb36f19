"""What is asked for, and when an answer ends."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from inferlab.errors import InferlabError
from inferlab.trace.events import Trace

FinishReason = Literal["stop", "length"]
Status = Literal["waiting", "running", "finished", "aborted"]


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are chosen and when to stop. Raises InferlabError for values without meaning.

    max_tokens: most tokens to generate.
    temperature: 0 takes the most likely token; above 0 divides the logits before sampling.
    top_k, top_p, min_p: keep the k most likely tokens (0: all), the fewest whose probabilities
        reach top_p, those at least min_p times as likely as the likeliest.
    repetition_penalty: divides positive and multiplies negative logits of tokens that prompt or
        output already hold (CTRL, arXiv 1909.05858, section 4.1); 1 changes nothing.
    seed: makes sampling repeatable; None takes a fresh one.
    stop, stop_token_ids: end when the text contains one of these, or one of these ids comes; what
        stopped is not part of the text.
    ignore_eos: go on after the model's own end, for measuring.
    """

    max_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        """Accept one stop string, a list, or None; refuse the rest by name."""
        stop = (self.stop,) if isinstance(self.stop, str) else _listed("stop", self.stop)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "stop_token_ids", _listed("stop_token_ids", self.stop_token_ids))
        self._check_types()
        bounds: dict[str, tuple[bool, str]] = {
            "max_tokens": (self.max_tokens >= 1, "at least 1"),
            "temperature": (0 <= self.temperature < float("inf"), "0 or above"),
            "top_k": (self.top_k >= 0, "0 (all) or above"),
            "top_p": (0 < self.top_p <= 1, "above 0 and at most 1"),
            "min_p": (0 <= self.min_p <= 1, "between 0 and 1"),
            "repetition_penalty": (0 < self.repetition_penalty < float("inf"), "above 0"),
            "stop": (all(self.stop), "texts that are not empty"),
            "seed": (self.seed is None or 0 <= self.seed < 2**63, "0 or above, below 2**63"),
        }
        for name, (holds, meaning) in bounds.items():
            if not holds:
                raise InferlabError(f"{name} must be {meaning}, not {getattr(self, name)!r}.")

    def _check_types(self) -> None:
        whole = {name: getattr(self, name) for name in ("max_tokens", "top_k")}
        whole |= {"seed": 0 if self.seed is None else self.seed}
        whole |= {f"stop_token_ids[{i}]": token for i, token in enumerate(self.stop_token_ids)}
        fractions = ("temperature", "top_p", "min_p", "repetition_penalty")
        for name, value in whole.items():
            _require_type(name, value, int, "a whole number")
        for name in fractions:
            _require_type(name, getattr(self, name), (int, float), "a number")
        for text in self.stop:
            _require_type("stop", text, str, "a text or a list of texts")

    @classmethod
    def of(cls, params: "SamplingParams | None", overrides: dict[str, Any]) -> "SamplingParams":
        """`params`, or the defaults, with some fields replaced."""
        base = params or cls()
        unknown = sorted(overrides.keys() - cls.__dataclass_fields__.keys())
        if unknown:
            known = ", ".join(cls.__dataclass_fields__)
            raise InferlabError(f"no sampling parameter {unknown[0]!r}. There are: {known}.")
        return cls(**{**base.__dict__, **overrides})


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, Iterable):
        raise InferlabError(f"{name} must be a list, not {value!r}.")
    return tuple(value)


def _require_type(name: str, value: Any, kinds: Any, meaning: str) -> None:
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise InferlabError(f"{name} must be {meaning}, not {value!r}.")


@dataclass(eq=False)
class Request:
    """A text that grows: the prompt, then each token that was chosen. Holds no tensor.

    priority: the lower comes first, where the scheduler looks at it; arrival: its place in line.
    """

    request_id: str
    prompt_token_ids: list[int]
    params: SamplingParams
    priority: int = 0
    arrival: int = 0
    status: Status = "waiting"
    num_computed_tokens: int = 0  # tokens whose keys and values are in the cache
    num_cached_tokens: int = 0  # of the prompt, found there when it first ran
    num_preemptions: int = 0

    def __post_init__(self) -> None:
        """The text begins as a copy of the prompt."""
        self.token_ids = list(self.prompt_token_ids)

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt_token_ids)

    @property
    def num_tokens(self) -> int:
        """Tokens of the text so far: prompt and output."""
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens

    @property
    def num_new_tokens(self) -> int:
        """Known tokens that no step has computed yet: 1 is a decode, more a prefill."""
        return self.num_tokens - self.num_computed_tokens

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]

    @property
    def is_over(self) -> bool:
        return self.status in ("finished", "aborted")


@dataclass(frozen=True)
class Piece:
    """A step of a stream. `text` is "" while a character or a stop string may still be open."""

    text: str
    token_id: int
    t_ns: int  # when the token was known, on the clock of `time.perf_counter_ns`


@dataclass(frozen=True)
class Completion:
    """A finished answer, and the trace of how it came."""

    text: str
    token_ids: list[int]
    prompt_token_ids: list[int]
    finish_reason: FinishReason
    trace: Trace = field(repr=False)


@dataclass(frozen=True)
class TokenProbability:
    """One candidate for the next token."""

    token_id: int
    text: str  # in a form to print
    probability: float
    logit: float


class StopText:
    """Lets text through until a stop string appears, and holds back what may become one."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self._stop, self._held, self.found = stop, "", False

    def push(self, text: str) -> str:
        """Return the text that is safe to show: no stop string begins in it."""
        if not self._stop:
            return text
        self._held += text
        at = min((i for s in self._stop if (i := self._held.find(s)) >= 0), default=-1)
        if at >= 0:
            safe, self._held, self.found = self._held[:at], "", True
            return safe
        keep = max(_overlap(self._held, s) for s in self._stop)
        cut = len(self._held) - keep
        safe, self._held = self._held[:cut], self._held[cut:]
        return safe

    def flush(self) -> str:
        """Return what was held back: the answer ended, and no stop string came of it."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that a stop string starts with."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((n for n in sizes if text.endswith(stop[:n])), 0)
