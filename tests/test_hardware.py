"""What the machine is, read from made-up machines; ceilings measured, kept, and measured again."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from inferlab import hardware
from inferlab.errors import InferlabError
from inferlab.hardware import activity, gpu, limits, machine, measuring

GIB = 2**30
CPUINFO = """processor\t: {}
model name\t: Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz
flags\t\t: fpu avx avx2 avx512f amx_tile amx_bf16
"""


@pytest.fixture
def forget() -> Iterator[None]:
    """Nothing found out about one machine is remembered for the next."""
    caches = (machine.describe, machine.fingerprint, gpu.gpus)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None) -> Path:
    """The root of a machine with two cores of two threads each, and no container around it."""
    monkeypatch.setattr(machine.platform, "system", lambda: "Linux")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(machine, "gpus", tuple)
    write(tmp_path / "proc/cpuinfo", "\n".join(CPUINFO.format(i) for i in range(4)))
    write(tmp_path / "proc/meminfo", "MemTotal:  16777216 kB\nMemAvailable:  8388608 kB\n")
    for i in range(4):
        cpu = tmp_path / f"sys/devices/system/cpu/cpu{i}"
        write(cpu / "topology/physical_package_id", "0\n")
        write(cpu / "topology/core_id", f"{i // 2}\n")
        caches = (("1", "Data", "48K", i // 2), ("1", "Instruction", "32K", i // 2),
                  ("2", "Unified", "2048K", i // 2), ("3", "Unified", "32M", 0))  # fmt: skip
        for number, (level, kind, size, shared) in enumerate(caches):
            for name, text in (("level", level), ("type", kind), ("size", size)):
                write(cpu / f"cache/index{number}/{name}", text + "\n")
            write(cpu / f"cache/index{number}/shared_cpu_list", f"{shared}\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_describes_a_linux_machine(linux: Path) -> None:
    found = hardware.describe(linux)
    assert found["cpu"] == {
        "model": "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz",
        "physical_cores": 2,
        "logical_cores": 4,
        "features": ["avx", "avx2", "avx512f", "amx_tile", "amx_bf16"],
        "caches": {
            "L1d": {"bytes": 48 * 2**10, "count": 2},
            "L2": {"bytes": 2 * 2**20, "count": 2},
            "L3": {"bytes": 32 * 2**20, "count": 1},
        },
        "affinity": 4,
        "quota": None,
        "usable": 4,
    }
    assert found["memory"] == {
        "total_bytes": 16 * GIB,
        "available_bytes": 8 * GIB,
        "limit_bytes": None,
    }
    assert found["hardware_id"] == "intel-xeon-platinum-8480-4-cores"
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("cgroup", "files", "quota", "limit", "usable"),
    [
        (
            "0::/a/b",
            {"a/b/cpu.max": "150000 100000", "a/b/memory.max": "max", "a/memory.max": "1024"},
            1.5,
            1024,
            2,
        ),
        ("0::/a", {"a/cpu.max": "max 100000", "a/memory.max": "max"}, None, None, 4),
        ("0::/", {"cpu.max": "50000 100000"}, 0.5, None, 1),
        (
            "4:memory:/x\n1:cpu,cpuacct:/x",
            {
                "cpu,cpuacct/x/cpu.cfs_quota_us": "300000",
                "cpu,cpuacct/x/cpu.cfs_period_us": "100000",
                "memory/x/memory.limit_in_bytes": "2048",
                "memory/memory.limit_in_bytes": "9223372036854771712",
            },
            3.0,
            2048,
            3,
        ),
        (
            "1:cpu:/",
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            None,
            None,
            4,
        ),
    ],
)
def test_container_limits(
    linux: Path,
    cgroup: str,
    files: dict[str, str],
    quota: float | None,
    limit: int | None,
    usable: int,
) -> None:
    write(linux / "proc/self/cgroup", cgroup + "\n")
    for name, text in files.items():
        write(linux / "sys/fs/cgroup" / name, text + "\n")
    found = hardware.describe(linux)
    assert found["cpu"]["quota"] == quota
    assert found["cpu"]["usable"] == usable
    assert found["memory"]["limit_bytes"] == limit


def test_affinity_limits_what_is_usable(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2}, raising=False)
    found = hardware.describe(linux)
    assert found["cpu"]["usable"] == 1
    assert found["hardware_id"].endswith("8480-1-core")


def test_arm_machine_is_named_by_lscpu(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(linux / "proc/cpuinfo", "processor : 0\nFeatures : fp asimd bf16 sve\n")
    monkeypatch.setattr(
        machine, "tool_output", lambda *command: "Model name:   Neoverse-V2\nThread(s): 1\n"
    )
    cpu = hardware.describe(linux)["cpu"]
    assert (cpu["model"], cpu["features"]) == ("Neoverse-V2", ["asimd", "bf16", "sve"])


def test_a_machine_that_says_nothing_is_described_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None
) -> None:
    monkeypatch.setattr(machine, "gpus", tuple)
    monkeypatch.setattr(machine.platform, "system", lambda: "Linux")
    monkeypatch.setattr(machine, "tool_output", lambda *command: "")
    monkeypatch.setattr(machine.platform, "freedesktop_os_release", dict)
    found = hardware.describe(tmp_path)
    assert found["cpu"]["logical_cores"] >= 1
    assert found["cpu"]["caches"] == {}
    assert found["memory"]["total_bytes"] is None
    assert found["hardware_id"]
    assert found["os"].startswith("Linux")


def test_describes_a_mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None) -> None:
    sysctl = (
        "machdep.cpu.brand_string: Apple M3\nhw.physicalcpu: 8\nhw.logicalcpu: 8\n"
        "hw.l1dcachesize: 65536\nhw.l2cachesize: 4194304\n"
        "hw.optional.arm.FEAT_BF16: 1\nhw.optional.arm.FEAT_I8MM: 1\nhw.optional.arm.FEAT_SME: 0\n"
    )
    answers = {"-a": sysctl, "hw.memsize": "17179869184\n", "machdep.cpu.brand_string": "Apple M3"}
    for module in (machine, gpu):
        monkeypatch.setattr(module, "tool_output", lambda *c: answers.get(c[-1], ""))
        monkeypatch.setattr(module.platform, "system", lambda: "Darwin")
        monkeypatch.setattr(module.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(machine.platform, "mac_ver", lambda: ("15.1", ("", "", ""), ""))
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    found = hardware.describe(tmp_path)
    assert found["cpu"]["model"] == "Apple M3"
    assert found["cpu"]["features"] == ["i8mm", "bf16"]
    assert found["cpu"]["caches"]["L2"] == {"bytes": 4 * 2**20, "count": 1}
    assert found["cpu"]["usable"] == found["cpu"]["physical_cores"] == 8
    assert found["memory"]["total_bytes"] == 16 * GIB
    assert found["os"].startswith("macOS 15.1")
    assert found["gpus"][0] | {"driver": ""} == {
        "name": "Apple M3 GPU",
        "memory_bytes": 16 * GIB,
        "driver": "",
        "compute_capability": None,
    }


def test_the_fingerprint_changes_with_the_driver_and_not_with_free_memory(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = {"name": "NVIDIA H200", "memory_bytes": 5, "driver": "1", "compute_capability": "9.0"}
    described = hardware.describe(linux) | {"gpus": [card]}
    monkeypatch.setattr(machine, "describe", lambda: described)
    before = hardware.fingerprint()
    assert json.loads(json.dumps(before)) == before
    described["memory"]["available_bytes"] = 1
    machine.fingerprint.cache_clear()
    assert hardware.fingerprint() == before
    described["gpus"] = [card | {"driver": "2"}]
    machine.fingerprint.cache_clear()
    assert hardware.fingerprint() != before


def test_the_id_is_the_gpu_where_there_is_one() -> None:
    cpu = {"model": "AMD EPYC 9754 128-Core Processor", "usable": 128}
    h200 = {"name": "NVIDIA H200"}
    assert machine.hardware_id(cpu, []) == "amd-epyc-9754-128-cores"
    assert machine.hardware_id(cpu, [h200]) == "nvidia-h200"
    assert machine.hardware_id(cpu, [h200] * 8) == "nvidia-h200-8x"
    assert machine.hardware_id(cpu, [{"name": None}]) == "gpu"
    assert machine.hardware_id({"model": "../..", "usable": 1}, []) == "1-core"


def test_nvidia_smi_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        'test "$1" = --query-gpu=name,memory.total,driver_version,compute_cap || exit 1\n'
        "echo 'NVIDIA H200, 143771, 570.86.15, 9.0'\necho 'Old Card, [N/A], 570.86.15, [N/A]'\n"
        "echo 'a warning'\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert list(gpu.gpus()) == [
        {
            "name": "NVIDIA H200",
            "memory_bytes": 143771 * 2**20,
            "driver": "570.86.15",
            "compute_capability": "9.0",
        },
        {
            "name": "Old Card",
            "memory_bytes": None,
            "driver": "570.86.15",
            "compute_capability": None,
        },
    ]


def test_a_failing_tool_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "broken-tool"
    tool.write_text("#!/bin/sh\necho something\nexit 9\n")
    tool.chmod(0o755)
    assert gpu.tool_output(str(tool)) == ""
    assert gpu.tool_output(str(tmp_path / "absent")) == ""


def test_the_driver_is_asked_where_nvidia_smi_is_missing(tmp_path: Path) -> None:
    assert gpu.read_proc_nvidia(tmp_path) == []
    write(tmp_path / "version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  x\n")
    write(tmp_path / "gpus/0000:01:00.0/information", "Model: \t NVIDIA L4 \nIRQ: 5\n")
    write(tmp_path / "gpus/0000:02:00.0/information", "IRQ: 5\n")
    assert gpu.read_proc_nvidia(tmp_path) == [
        {
            "name": "NVIDIA L4",
            "memory_bytes": None,
            "driver": "535.129.03",
            "compute_capability": None,
        }
    ]


@pytest.mark.parametrize(
    ("asked", "cuda", "mps", "meant"),
    [
        ("auto", True, False, "cuda"),
        ("auto", False, True, "mps"),
        ("auto", False, False, "cpu"),
        ("cpu", True, True, "cpu"),
        ("mps", True, True, "mps"),
    ],
)
def test_resolve_device(
    monkeypatch: pytest.MonkeyPatch, asked: str, cuda: bool, mps: bool, meant: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert hardware.resolve_device(asked) == meant


@pytest.mark.parametrize(
    ("asked", "words"), [("cuda", "no CUDA GPU"), ("mps", "no Apple GPU"), ("tpu", "expected one")]
)
def test_a_device_that_is_not_here_is_refused(
    monkeypatch: pytest.MonkeyPatch, asked: str, words: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(InferlabError, match=words):
        hardware.resolve_device(asked)


def test_all_but_measuring_works_without_torch(home: Path) -> None:
    code = (
        "import sys; from inferlab import hardware as h\n"
        "h.describe(); h.fingerprint(); h.noise(0); h.known_ceilings()\n"
        "h.peak_memory_bytes(); h.resolve_device('cpu')\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_noise_is_what_others_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1\n")

    def pass_time(seconds: float) -> None:
        # 100 ticks more: 30 user, 10 system, 50 idle, 10 stolen; 5 of the user's are our own.
        stat.write_text("cpu  130 0 110 850 0 0 0 10 0 0\n")

    clock = iter([1.0, 1.05])
    monkeypatch.setattr(activity.time, "sleep", pass_time)
    monkeypatch.setattr(activity.time, "process_time", lambda: next(clock))
    found = hardware.noise(proc=tmp_path)
    assert found["others_busy"] == 0.35
    assert found["steal"] == 0.1
    assert found["load_average_1m"] >= 0


def test_noise_is_unknown_where_nothing_counts_it(tmp_path: Path) -> None:
    found = hardware.noise(0.0, proc=tmp_path)
    assert (found["others_busy"], found["steal"]) == (None, None)


def test_noise_of_no_time_at_all_is_unknown(tmp_path: Path) -> None:
    write(tmp_path / "stat", "cpu  1 2 3 4 5 6 7 8 9 10\n")
    assert hardware.noise(0.0, proc=tmp_path)["others_busy"] is None


def test_peak_memory_is_of_this_program_and_keeps_what_was_freed() -> None:
    code = (
        "from inferlab.hardware import peak_memory_bytes as peak\n"
        "before = peak(); block = bytearray(b'x') * 200_000_000; del block\n"
        "print(before, peak())"
    )
    weight = bytearray(b"x") * 300_000_000  # a large parent must not make its child look large
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before < len(weight) / 2
    assert 200_000_000 <= after < 300_000_000


def test_peak_memory_where_proc_is_missing(tmp_path: Path) -> None:
    found = hardware.peak_memory_bytes(status=tmp_path / "absent")
    assert found >= hardware.peak_memory_bytes() / 2 > 0


def test_peak_memory_counts_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = tmp_path / "status"
    status.write_text("Name: x\nVmHWM:\t    1024 kB\n")
    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 2,
        max_memory_reserved=lambda i: 1000 + i,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert hardware.peak_memory_bytes(status=status) == 2**20 + 2001


class Clock:
    """Time that passes only when a fake kernel works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(measuring, "perf_counter", lambda: self.now)

    def kernel(self, name: str, work: float, *seconds: float) -> measuring.Kernel:
        """A kernel whose runs take the given seconds, the last of them for ever after."""
        times = list(seconds)

        def run() -> None:
            self.now += times.pop(0) if len(times) > 1 else times[0]

        return measuring.Kernel(name, work, run)


def test_the_fastest_kernel_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    slow, fast = clock.kernel("slow", 100.0, 0.2), clock.kernel("fast", 300.0, 9.0, 0.1)
    found = measuring.compete([slow, fast], lambda: None, budget_s=100.0)
    assert found["kernel"] == "fast"
    assert found["samples"] == pytest.approx([3000.0] * measuring.ROUNDS)
    assert found["median"] == pytest.approx(3000.0)


def test_a_noisy_moment_does_not_lower_the_best_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    noisy = clock.kernel("noisy", 10.0, 0.1, 0.1, 0.1, 0.4, 0.2, 0.1)
    found = measuring.compete([noisy], lambda: None, budget_s=100.0)
    assert (found["low"], found["high"]) == (pytest.approx(25.0), pytest.approx(100.0))
    assert found["low"] < found["median"] <= found["high"]


def test_the_budget_ends_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    found = measuring.compete([clock.kernel("k", 1.0, 1.0)], lambda: None, budget_s=3.0)
    assert len(found["samples"]) == measuring.MIN_ROUNDS


def test_short_runs_are_repeated_until_a_sample_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    measuring.compete([clock.kernel("k", 1.0, 0.001)], lambda: None, budget_s=100.0)
    assert clock.now >= measuring.ROUNDS * measuring.SAMPLE_S * 0.95


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real kernels on sizes that take no time."""
    monkeypatch.setattr(measuring, "SHAPES", ((8, 16, 32), (64, 64, 64)))
    monkeypatch.setattr(measuring, "GPU_SHAPES", ((8, 16, 32), (64, 64, 64)))
    monkeypatch.setattr(measuring, "SAMPLE_S", 1e-4)
    monkeypatch.setattr(measuring, "BUDGET_S", 0.0)


def test_measures_a_cpu(quick: None) -> None:
    before = torch.get_num_threads()
    found = measuring.measure("cpu", 2**20, before + 1)
    assert torch.get_num_threads() == before
    assert list(found["matmul_flop_s"]) == ["float32", "bfloat16"]
    for rate in (*found["matmul_flop_s"].values(), found["read_bytes_s"], found["copy_bytes_s"]):
        assert 0 < rate["low"] <= rate["median"] <= rate["high"] < math.inf
        assert len(rate["samples"]) >= measuring.MIN_ROUNDS
        assert rate["kernel"]


def test_kernels_do_the_work_that_they_claim(quick: None) -> None:
    for kernel in measuring.multipliers("cpu", "float32", lambda: None):
        size = (8, 16, 32) if "8x16" in kernel.name else (64, 64, 64)
        result = kernel.run()
        assert isinstance(result, torch.Tensor)
        assert result.shape == (size[0], size[2])
        assert kernel.work == 2 * math.prod(size)
    names = [kernel.name for kernel in measuring.readers("cpu", 2**20)]
    assert len(set(names)) == len(names) >= 8
    total = measuring.readers("cpu", 2**20)[0]
    assert total.work == 2**20
    assert float(total.run()) == 2**18  # type: ignore[arg-type]  # the sum of as many ones
    copy = measuring.copier("cpu", 2**20)
    assert copy.work == 2**20  # half of it read, the other half written
    assert float(copy.run().sum()) == 2**17  # type: ignore[attr-defined]


def test_sizes_that_would_take_too_long_are_left_out(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "SLOWEST_RUN_S", 0.0)
    names = [kernel.name for kernel in measuring.multipliers("cpu", "float32", lambda: None)]
    assert all("8x16 by 16x32" in name for name in names)


def test_a_build_without_packed_weights_measures_the_rest(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    names = [kernel.name for kernel in measuring.multipliers("cpu", "float32", lambda: None)]
    assert not any("packed" in name for name in names)
    monkeypatch.setattr(torch._C, "_has_mkldnn", False)
    assert len(measuring.multipliers("cpu", "bfloat16", lambda: None)) == len(names)


def test_a_dtype_that_a_device_lacks_is_left_out(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = measuring.multipliers

    def lacking(device: str, dtype: str, wait: Callable[[], None]) -> list[measuring.Kernel]:
        if dtype == "bfloat16":
            raise TypeError("BFloat16 is not supported on this device")
        return real(device, dtype, wait)

    monkeypatch.setattr(measuring, "multipliers", lacking)
    assert list(measuring.measure("cpu", 2**20, 1)["matmul_flop_s"]) == ["float32"]


def test_too_little_memory_is_one_error(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    monkeypatch.setattr(measuring, "multipliers", full)
    with pytest.raises(InferlabError, match=r"ceilings of cpu: CUDA out of memory.*GiB\. Free"):
        measuring.measure("cpu", 2**20, 1)


def test_each_device_has_its_own_way_to_wait() -> None:
    assert measuring.waiter("cuda") is torch.cuda.synchronize
    assert measuring.waiter("mps") is torch.mps.synchronize
    measuring.waiter("cpu")()


def test_a_burst_that_came_once_is_no_ceiling() -> None:
    rate = {"samples": [38.0, 83.0, 50.0, 49.0]}
    assert hardware.sustained(rate) == 50.0
    assert hardware.sustained({"samples": [7.0]}) == 7.0


def sampled(best: float) -> measuring.Sampled:
    return {"median": best / 2, "low": best / 4, "high": best, "samples": [best], "kernel": "k"}


@pytest.fixture
def measured(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each measurement, in turn, is going to give; the calls so far are taken off it."""
    results = [
        {
            "matmul_flop_s": {"float32": sampled(f32), "bfloat16": sampled(bf16)},
            "read_bytes_s": sampled(read),
            "copy_bytes_s": sampled(20e9),
        }
        for f32, bf16, read in ((1e11, 4e11, 40e9), (2e11, 3e11, 30e9), (5e11, 5e11, 50e9))
    ]
    monkeypatch.setattr(limits, "measure", lambda *arguments: results.pop(0))
    return results


def test_ceilings_are_measured_once_and_kept(measured: list[dict[str, Any]]) -> None:
    assert hardware.known_ceilings() == {}
    first = hardware.ceilings("cpu")
    assert len(measured) == 2
    assert hardware.ceilings("cpu") == first
    assert len(measured) == 2
    known = hardware.known_ceilings()
    assert list(known) == ["cpu"]
    assert known["cpu"]["read_bytes_s"]["high"] == 40e9
    assert json.loads(json.dumps(known)) == known


def test_the_bound_is_the_best_sample(measured: list[dict[str, Any]]) -> None:
    found = hardware.ceilings("cpu")
    assert found.device == "cpu"
    assert found.best_flop_s("bfloat16") == found.best_flop_s(torch.bfloat16) == 4e11
    assert found.best_read_bytes_s == 40e9
    assert found.best_copy_bytes_s == 20e9
    assert found.ridge_flop_per_byte("bfloat16") == 10
    with pytest.raises(InferlabError, match="no matmul ceiling for float16 on cpu"):
        found.best_flop_s("float16")


def test_refresh_keeps_what_was_reached_before(measured: list[dict[str, Any]]) -> None:
    hardware.ceilings("cpu")
    again = hardware.ceilings("cpu", refresh=True)
    assert again.best_flop_s("float32") == 2e11
    assert again.best_flop_s("bfloat16") == 4e11
    assert again.best_read_bytes_s == 40e9
    assert hardware.ceilings("cpu") == again


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"high": 40000000000.0', '"high": NaN'),
        lambda text: text.replace('"high": 40000000000.0', '"high": -1'),
        lambda text: text.replace('"read_bytes_s"', '"read_bytes"'),
        lambda text: text.replace('"version": 1', '"version": 0'),
        lambda text: text.replace('"device": "cpu"', '"device": "cuda"'),
        lambda text: text.replace('"torch": "', '"torch": "0.'),
        lambda text: text.replace('"cpu": "', '"cpu": "another '),
    ],
)
def test_a_damaged_or_foreign_file_is_measured_again(
    home: Path, measured: list[dict[str, Any]], damage: Callable[[str], str]
) -> None:
    hardware.ceilings("cpu")
    (path,) = (home / "ceilings").iterdir()
    whole = path.read_text()
    path.write_text(damage(whole))
    assert path.read_text() != whole
    assert hardware.known_ceilings() == {}
    assert hardware.ceilings("cpu").best_read_bytes_s == 30e9
    assert hardware.known_ceilings()["cpu"]["read_bytes_s"]["high"] == 30e9


def test_a_home_that_cannot_be_written_is_one_error(
    home: Path, measured: list[dict[str, Any]]
) -> None:
    (home / "ceilings").write_text("a file where the folder should be")
    with pytest.raises(InferlabError, match="cannot write"):
        hardware.ceilings("cpu")


def test_the_buffer_is_many_times_the_last_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = {"limit_bytes": None, "total_bytes": 64 * GIB}
    caches = {"L3": {"bytes": 64 * 2**20, "count": 1}}
    found = {"cpu": {"caches": caches}, "memory": memory}
    monkeypatch.setattr(limits, "describe", lambda: found)
    assert limits._buffer_bytes("cpu") == 512 * 2**20
    caches["L3"]["count"] = 12
    assert limits._buffer_bytes("cpu") == GIB
    memory["limit_bytes"] = GIB
    assert limits._buffer_bytes("cpu") == 128 * 2**20
    caches.clear()
    memory |= {"limit_bytes": None, "total_bytes": None}
    assert limits._buffer_bytes("cpu") == 256 * 2**20


def test_the_buffer_leaves_most_of_a_gpu_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (4 * GIB, 8 * GIB))
    assert limits._buffer_bytes("cuda") == GIB
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (80 * GIB, 80 * GIB))
    assert limits._buffer_bytes("cuda") == 2 * GIB


def test_this_machine_is_measured_and_remembered(
    quick: None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_CPU_BUFFER", (2**20, 2**20))
    found = hardware.ceilings("cpu")
    assert 1 <= found.num_threads <= hardware.describe()["cpu"]["logical_cores"]
    assert hardware.known_ceilings()["cpu"]["measured_at"] == found.measured_at
    name = f"{hardware.describe()['hardware_id']}-cpu.json"
    assert (home / "ceilings" / name).is_file()


@pytest.mark.gpu
def test_ceilings_of_a_gpu(home: Path) -> None:
    found = hardware.ceilings("cuda")
    assert set(found.matmul_flop_s) == {"float32", "bfloat16", "float16"}
    assert found.best_flop_s("bfloat16") > found.best_flop_s("float32")
    assert found.best_read_bytes_s > 1e11
    card = hardware.describe()["gpus"][0]
    assert card["name"] == torch.cuda.get_device_name(0)
    assert card["memory_bytes"] >= torch.cuda.get_device_properties(0).total_memory


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert machine._version("no-such-package") is None
    assert machine._version("torch") == hardware.describe()["versions"]["torch"]
