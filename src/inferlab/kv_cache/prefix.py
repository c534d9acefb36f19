"""Which block holds which beginning of a text, so that a prompt seen before is not computed again.

The name of a full block is the hash of all tokens up to its end: that of the block before it,
chained with its own tokens. Two texts share a block exactly when they agree from the first token on
(the idea of vLLM's automatic prefix caching; PagedAttention is arXiv 2309.06180).
"""

from array import array
from collections.abc import Iterator, Sequence
from hashlib import sha256


def block_hash(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """The name of a full block: `parent` names the block before it, b"" where there is none."""
    return sha256(parent + array("q", token_ids).tobytes()).digest()


class PrefixIndex:
    """Finds blocks by the tokens that they hold. Knows nothing of who uses them."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._block_of: dict[bytes, int] = {}
        self._name_of: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._block_of)

    def __contains__(self, block: int) -> bool:
        return block in self._name_of

    def find(self, token_ids: Sequence[int]) -> list[int]:
        """The blocks of the longest known beginning, in order.

        Stops before the last token: one at least is computed, since its logits are asked for.
        """
        found = []
        for name in self._names(token_ids[:-1]):
            if name not in self._block_of:
                break
            found.append(self._block_of[name])
        return found

    def add(self, block: int, name: bytes) -> None:
        """Make a full block findable; the first block with these tokens keeps the name."""
        if name not in self._block_of and block not in self._name_of:
            self._block_of[name] = block
            self._name_of[block] = name

    def forget(self, block: int) -> None:
        """The block is about to hold something else."""
        name = self._name_of.pop(block, None)
        if name is not None:
            del self._block_of[name]

    def _names(self, token_ids: Sequence[int]) -> Iterator[bytes]:
        size, name = self.block_size, b""
        for start in range(0, len(token_ids) - size + 1, size):
            name = block_hash(name, token_ids[start : start + size])
            yield name
