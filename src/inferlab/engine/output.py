"""What one request has said so far: tokens become text, the end is noticed, times are kept."""

from time import perf_counter_ns

from inferlab.engine.request import Completion, FinishReason, Piece, SamplingParams, StopText
from inferlab.errors import InferlabError
from inferlab.model.config import ModelConfig
from inferlab.model.tokenizer import Detokenizer, Tokenizer
from inferlab.trace.events import Chunk, Status, Trace, Usage


class Output:
    """Takes a request's tokens as they are chosen, and knows when the last one was there."""

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: Tokenizer,
        prompt_ids: list[int],
        params: SamplingParams,
    ) -> None:
        """Raises InferlabError when the prompt leaves no room for an answer."""
        room = config.max_model_len - len(prompt_ids)
        if room < 1:
            raise InferlabError(
                f"the prompt has {len(prompt_ids)} tokens; {config.name} takes "
                f"{config.max_model_len} in all. Shorten the prompt."
            )
        self.prompt_ids = prompt_ids
        self.limit = min(params.max_tokens, room)
        eos = () if params.ignore_eos else tokenizer.eos_token_ids
        self._ends = {*eos, *params.stop_token_ids}
        self._detokenizer, self._stop = Detokenizer(tokenizer), StopText(params.stop)
        self.token_ids: list[int] = []
        self.text = ""
        self.is_complete = False
        self.finish_reason: FinishReason = "length"
        self._open_tokens = 0  # tokens since the last chunk that carried text
        now = perf_counter_ns()
        self.trace = Trace(scheduled_ns=now, sent_ns=now)

    def take(self, token: int) -> Piece:
        """The next token, with the text that it completed."""
        t_ns, stop = perf_counter_ns(), self._stop
        self.token_ids.append(token)
        ended = token in self._ends
        text = "" if ended else stop.push(self._detokenizer.push(token))
        self.is_complete = ended or stop.found or len(self.token_ids) == self.limit
        if self.is_complete and not stop.found:
            text += stop.push(self._detokenizer.flush())
            text += stop.flush()
        self._note(t_ns, text)
        if self.is_complete:
            self.finish_reason = "stop" if ended or stop.found else "length"
            self.trace.finish_reason = self.finish_reason
        self.text += text
        return Piece(text, token, t_ns)

    def close(self, status: Status, error: str | None = None, num_cached_tokens: int = 0) -> None:
        """Complete the trace: no token follows."""
        self.trace.status, self.trace.error = status, error
        self.trace.end_ns = perf_counter_ns()
        counts = (len(self.prompt_ids), len(self.token_ids), num_cached_tokens)
        self.trace.usage = Usage(*counts, "engine")

    def completion(self) -> Completion:
        """The finished answer."""
        return Completion(
            self.text, self.token_ids, self.prompt_ids, self.finish_reason, self.trace
        )

    def _note(self, t_ns: int, text: str) -> None:
        """A token without text (an open character, the end) counts with the next text."""
        self._open_tokens += 1
        if text:
            self.trace.chunks.append(Chunk(t_ns, self._open_tokens, "content"))
            self._open_tokens = 0
        else:
            self.trace.chunks.append(Chunk(t_ns, None, "none"))
