"""One answer on its way: runs the generation loop, decides when it ends, keeps its trace."""

from collections.abc import Generator, Iterator
from contextlib import closing
from time import perf_counter_ns

from inferlab.engine.cache_pool import CachePool
from inferlab.engine.generate import generate_with_cache, generate_without_cache
from inferlab.engine.request import FinishReason, Piece, SamplingParams, StopText
from inferlab.engine.sampler import Sampler
from inferlab.errors import InferlabError
from inferlab.model.llama import Llama
from inferlab.model.tokenizer import Detokenizer, Tokenizer
from inferlab.trace.events import Chunk, Trace, Usage


class Answer:
    """One request on its way: runs the loop, decides when it ends, and keeps its trace."""

    def __init__(
        self,
        model: Llama,
        tokenizer: Tokenizer,
        prompt_ids: list[int],
        params: SamplingParams,
        pool: CachePool | None,
    ) -> None:
        """pool: where its KV cache comes from; None recomputes the whole text for each token.

        Raises InferlabError when the prompt leaves no room for an answer.
        """
        room = model.config.max_model_len - len(prompt_ids)
        if room < 1:
            raise InferlabError(
                f"the prompt has {len(prompt_ids)} tokens; {model.config.name} takes "
                f"{model.config.max_model_len} in all. Shorten the prompt."
            )
        self._model, self._tokenizer, self._pool = model, tokenizer, pool
        self.prompt_ids, self._params = prompt_ids, params
        self._limit = min(params.max_tokens, room)
        eos = () if params.ignore_eos else tokenizer.eos_token_ids
        self._ends = {*eos, *params.stop_token_ids}
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason = "length"
        self._open_tokens = 0  # tokens since the last chunk that carried text
        now = perf_counter_ns()
        self.trace = Trace(scheduled_ns=now, sent_ns=now)

    def pieces(self) -> Iterator[Piece]:
        """Yield each token with the text that it completed; the trace is complete afterwards.

        Closing the iterator early leaves a trace that says "cancelled".
        """
        self.trace.scheduled_ns = self.trace.sent_ns = perf_counter_ns()
        try:
            yield from self._pieces()
            self.trace.status = "ok"
        except GeneratorExit:
            self.trace.status = "cancelled"
            raise
        except BaseException as error:
            self.trace.status, self.trace.error = "failed", repr(error)
            raise
        finally:
            self.trace.end_ns = perf_counter_ns()
            self.trace.usage = Usage(len(self.prompt_ids), len(self.token_ids), 0, "engine")

    def _pieces(self) -> Iterator[Piece]:
        detokenizer, stop = Detokenizer(self._tokenizer), StopText(self._params.stop)
        with closing(self._tokens()) as tokens:
            yield from self._read(tokens, detokenizer, stop)

    def _read(
        self, tokens: Iterator[int], detokenizer: Detokenizer, stop: StopText
    ) -> Iterator[Piece]:
        for token in tokens:
            t_ns = perf_counter_ns()
            self.token_ids.append(token)
            ended = token in self._ends
            text = "" if ended else stop.push(detokenizer.push(token))
            last = ended or stop.found or len(self.token_ids) == self._limit
            if last and not stop.found:
                text += stop.push(detokenizer.flush())
                text += stop.flush()
            self._note(t_ns, text)
            if last:
                self.finish_reason = "stop" if ended or stop.found else "length"
                self.trace.finish_reason = self.finish_reason
            yield Piece(text, token, t_ns)
            if last:
                return

    def _note(self, t_ns: int, text: str) -> None:
        """A token without text (an open character, the end) counts with the next text."""
        self._open_tokens += 1
        if text:
            self.trace.chunks.append(Chunk(t_ns, self._open_tokens, "content"))
            self._open_tokens = 0
        else:
            self.trace.chunks.append(Chunk(t_ns, None, "none"))

    def _tokens(self) -> Generator[int, None, None]:
        model, ids = self._model, self.prompt_ids
        sampler = Sampler(self._params, ids, model.device)
        if self._pool is None:
            yield from generate_without_cache(model, ids, sampler)
            return
        with self._pool.lent(len(ids) + self._limit) as slot:
            yield from generate_with_cache(model, ids, sampler, slot.cache, slot.decode)
