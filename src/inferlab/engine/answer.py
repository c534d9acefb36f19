"""One answer on its own: runs the generation loop, with a cache of its own or with none."""

from collections.abc import Generator, Iterator
from contextlib import closing
from time import perf_counter_ns

from inferlab.engine.cache_pool import CachePool
from inferlab.engine.generate import generate_with_cache, generate_without_cache
from inferlab.engine.output import Output
from inferlab.engine.request import Piece, SamplingParams
from inferlab.engine.sampler import Sampler
from inferlab.model.llama import Llama
from inferlab.model.tokenizer import Tokenizer


class Answer(Output):
    """One request on its way: its output, and the loop that its tokens come from."""

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
        super().__init__(model.config, tokenizer, prompt_ids, params)
        self._model, self._pool, self._params = model, pool, params

    def pieces(self) -> Iterator[Piece]:
        """Yield each token with the text that it completed; the trace is complete afterwards.

        Closing the iterator early leaves a trace that says "cancelled".
        """
        self.trace.scheduled_ns = self.trace.sent_ns = perf_counter_ns()
        try:
            with closing(self._tokens()) as tokens:
                while not self.is_complete:
                    yield self.take(next(tokens))
            self.close("ok")
        except GeneratorExit:
            self.close("cancelled")
            raise
        except BaseException as error:
            self.close("failed", repr(error))
            raise

    def _tokens(self) -> Generator[int, None, None]:
        model, ids = self._model, self.prompt_ids
        sampler = Sampler(self._params, ids, model.device)
        if self._pool is None:
            yield from generate_without_cache(model, ids, sampler)
            return
        with self._pool.lent(len(ids) + self.limit) as slot:
            yield from generate_with_cache(model, ids, sampler, slot.cache, slot.decode)
