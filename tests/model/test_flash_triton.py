"""The Triton kernel equals the reference; where it cannot run, it says so in one sentence."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from inferlab.errors import InferlabError
from inferlab.model.attention import attend_reference

SHAPES = [(1, 1, 1, 1, 16), (1, 300, 9, 3, 64), (130, 130, 4, 2, 64), (70, 201, 3, 1, 80)]

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")


def inputs(shape: tuple[int, ...], device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    num_queries, num_keys, num_heads, num_kv_heads, dim = shape
    torch.manual_seed(num_keys)
    q = torch.randn(num_queries, num_heads, dim, device=device)
    # As a cache holds them: part of a longer buffer.
    buffer = torch.randn(2, num_kv_heads, num_keys + 5, dim, device=device)
    return [one.to(dtype) for one in (q, *buffer[:, :, :num_keys])]


def check(shape: tuple[int, ...], device: str, dtype: torch.dtype, tolerance: float) -> None:
    from inferlab.model.flash_triton import attend_triton

    q, k, v = inputs(shape, device, dtype)
    found = attend_triton(q, k, v)
    assert found.dtype == dtype
    torch.testing.assert_close(found, attend_reference(q, k, v), atol=tolerance, rtol=tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 3e-2), (torch.float16, 5e-3)]
)
def test_equal_to_the_reference_on_a_gpu(
    shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    check(shape, "cuda", dtype, tolerance)


@pytest.mark.gpu
def test_scores_far_beyond_what_exp_can_take_on_a_gpu() -> None:
    from inferlab.model.flash_triton import attend_triton

    q, k, v = inputs((130, 130, 4, 2, 64), "cuda", torch.float32)
    torch.testing.assert_close(
        attend_triton(1e3 * q, k, v), attend_reference(1e3 * q, k, v), atol=1e-3, rtol=1e-3
    )


@needs_triton
def test_equal_to_the_reference_when_interpreted() -> None:
    """Triton's interpreter runs the same kernel on the CPU; it is chosen before the import."""
    code = "import torch\nfrom test_flash_triton import SHAPES, check\n" + (
        "for shape in SHAPES:\n    check(shape, 'cpu', torch.float32, 1e-4)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@needs_triton
@pytest.mark.skipif("TRITON_INTERPRET" in os.environ, reason="the interpreter takes all tensors")
def test_what_the_kernel_cannot_do_is_refused() -> None:
    from inferlab.model.flash_triton import attend_triton

    with pytest.raises(InferlabError, match="CUDA GPU, not on cpu"):
        attend_triton(*inputs((1, 1, 1, 1, 16), "cpu", torch.float32))
    with pytest.raises(InferlabError, match="sliding window"):
        attend_triton(*inputs((1, 1, 1, 1, 16), "cpu", torch.float32), window=4)
    with pytest.raises(InferlabError, match="up to 128, not 256"):
        attend_triton(*inputs((1, 1, 1, 1, 256), "cpu", torch.float32))


def test_without_triton_the_import_says_what_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "inferlab.model.flash_triton", raising=False)
    monkeypatch.setitem(sys.modules, "triton", None)  # as if it were not installed
    with pytest.raises(InferlabError, match=r"needs the package triton.*attend_tiled"):
        import inferlab.model.flash_triton  # noqa: F401
