"""The peak of an operation's memory is what its tensors held at one moment, to the byte."""

import pytest
import torch

from inferlab import lab

MIB = 2**20


def test_what_is_held_together_counts_and_what_is_given_back_does_not() -> None:
    kept = torch.ones(4 * MIB, dtype=torch.uint8)  # was there before: not the operation's

    def run() -> torch.Tensor:
        for _ in range(3):
            one = kept + 1
            two = one + 1  # both at once: 8 MiB
            del one, two
        return kept[:MIB] + 1

    assert lab.peak_bytes(run) == pytest.approx(8 * MIB, abs=64)  # and the number 1, as a tensor


def test_the_result_counts() -> None:
    assert lab.peak_bytes(lambda: torch.zeros(3 * MIB, dtype=torch.uint8)) == 3 * MIB


def test_nothing_is_written_to_the_error_output(capfd: pytest.CaptureFixture[str]) -> None:
    lab.peak_bytes(lambda: torch.zeros(8))
    assert capfd.readouterr().err == ""


def test_an_error_passes_and_leaves_the_profiler_usable() -> None:
    with pytest.raises(ZeroDivisionError):
        lab.peak_bytes(lambda: 1 // 0)
    assert lab.peak_bytes(lambda: torch.zeros(64, dtype=torch.uint8)) == 64


@pytest.mark.gpu
def test_a_gpu_counts_its_own_memory() -> None:
    found = lab.peak_bytes(lambda: torch.zeros(3 * MIB, dtype=torch.uint8, device="cuda"))
    assert found == 3 * MIB
