"""A snippet that a reader runs alone: what it prints and writes, and what it is told when wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from throwaway_lab import GOOD, Lab

from inferlab import hardware
from inferlab.errors import InferlabError
from inferlab.lab import interleave, process, schema, settings, snippet, timed


def alone(path: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=60,
    )


def test_alone_it_prints_its_table_and_finding_and_writes_nothing(lab: Lab, home: Path) -> None:
    path = lab.snippet("a/x")
    done = alone(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("work   time, s (low–high)")
    assert done.stdout.splitlines()[-1] == "The clock was read 2 times."
    assert [p for p in lab.root.rglob("*.*") if p.is_file() and p.name != "mkdocs.yml"] == [path]
    assert not (home / "records").exists()


def test_help_answers_before_anything_is_measured(lab: Lab) -> None:
    path = lab.snippet("a/x", GOOD.replace("rows =", "print('measuring')\n    rows =", 1))
    done = alone(path, "--help")
    assert done.returncode == 0
    assert "How fast is a fake clock?" in done.stdout
    assert "measuring" not in done.stdout
    assert alone(path, "--profile", "huge").returncode == 2


def test_it_writes_chart_and_whole_record_when_asked(lab: Lab, tmp_path: Path) -> None:
    path = lab.snippet("a/x")
    done = alone(path, "--profile", "full", "--chart", "--json", str(tmp_path / "x.json"))
    assert done.returncode == 0, done.stderr
    assert path.with_suffix(".svg").read_text().startswith("<svg ")
    record = json.loads((tmp_path / "x.json").read_text())
    schema.check_record(record)
    assert (record["profile"], len(record["rows"])) == ("full", 3)


def test_options_may_come_from_the_environment(lab: Lab) -> None:
    path = lab.snippet("a/x")
    assert "read 3 times" in alone(path, INFERLAB_PROFILE="full").stdout
    assert "read 2 times" in alone(path, "--profile", "quick", INFERLAB_PROFILE="full").stdout
    done = alone(path, INFERLAB_PROFILE="huge")
    assert done.returncode != 0
    assert "INFERLAB_PROFILE='huge': expected one of smoke, quick, full" in done.stderr


def test_alone_a_result_beyond_its_bound_is_shown_and_refused(lab: Lab) -> None:
    path = lab.snippet(
        "a/x",
        """
        from inferlab import lab
        lab.record(
            rows=[{"v": 11.0}],
            columns=[lab.Column("v", "rate", "tok/s", at_most=10)],
            finding="Too fast.",
        )
        """,
    )
    done = alone(path)
    assert done.returncode == 1
    assert "11" in done.stdout
    assert "beyond its physical bound 10 tok/s" in done.stderr


def test_what_the_machine_lacks_ends_the_snippet_with_the_reason(lab: Lab) -> None:
    path = lab.snippet("a/x", "from inferlab import lab\nlab.require('package:no_such')\nraise")
    done = alone(path)
    assert done.returncode == 0
    assert done.stdout == "Not measured on this machine: needs the Python package no_such.\n"


@pytest.mark.parametrize(
    ("need", "asked", "reason"),
    [
        ("cuda", "cpu", "needs a CUDA GPU, and this run was asked to use cpu"),
        ("mps", "cuda", "needs an Apple GPU, and this run was asked to use cuda"),
        ("package:json", "auto", None),
    ],
)
def test_what_a_snippet_may_require(
    monkeypatch: pytest.MonkeyPatch, need: str, asked: str, reason: str | None
) -> None:
    monkeypatch.setenv("INFERLAB_DEVICE", asked)
    assert snippet._lacks(need) == reason


def test_requiring_a_gpu_asks_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    for there, reason in ((True, None), (False, "needs a CUDA GPU")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert snippet._lacks("cuda") == reason
    with pytest.raises(InferlabError, match="expected 'cuda', 'mps' or 'package:NAME'"):
        snippet._lacks("a pony")


def test_record_needs_a_file_and_is_called_once() -> None:
    with pytest.raises(InferlabError, match="a snippet in a file"):
        snippet._claim({})
    caller = {"__file__": "snippets/a/x.py"}
    assert snippet._claim(caller).name == "x.py"
    with pytest.raises(InferlabError, match="exactly once"):
        snippet._claim(caller)


def test_models_servers_and_parameters_are_kept_as_plain_json(lab: Lab) -> None:
    lab.snippet(
        "a/x",
        """
        import numpy as np
        from inferlab import lab

        class Model:
            def describe(self):
                return {"name": "tiny", "device": "cpu", "dtype": "float32", "layers": (1, 2)}

        lab.record(
            rows=[{"v": np.float64(2.5)}],
            columns=[lab.Column("v", "value")],
            finding="A finding.",
            parameters={"sizes": range(2), "at": np.int64(3)},
            model=Model(),
            notes=["A note."],
            server={"url": "http://127.0.0.1:1", "version": "1"},
        )
        """,
    )
    lab.run()
    record: dict[str, Any] = lab.status("a/x").record or {}
    assert record["parameters"] == {"sizes": [0, 1], "at": 3}
    assert record["model"]["layers"] == [1, 2]
    assert record["server"]["version"] == "1"
    assert record["environment"]["packages"] == {"numpy": np.__version__}
    other = {**record, "server": {"url": "http://127.0.0.1:1", "version": "2"}}
    assert schema.key_of(other) != record["key"], "another server is another measurement"


def test_profiles_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(profile: str, **values: Any) -> Any:
        monkeypatch.setenv("INFERLAB_PROFILE", profile)
        return settings.pick(**values)

    assert choose("full", quick=[1], full=[1, 2]) == [1, 2]
    assert choose("quick", quick=[1, 2, 3], full=[]) == [1, 2, 3]
    assert choose("smoke", quick=[1, 2, 3], full=[]) == [1, 2], "a test needs a short one"
    assert choose("smoke", quick=5, full=9) == 5
    assert choose("smoke", quick=5, full=9, smoke=1) == 1
    assert settings.repeats() == 1
    monkeypatch.setenv("INFERLAB_PROFILE", "full")
    assert settings.repeats(full=7) == 7


def test_ceilings_are_those_of_the_device_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERLAB_DEVICE", "cpu")
    monkeypatch.setattr(hardware, "ceilings", lambda device: f"ceilings of {device}")
    assert snippet.ceilings() == "ceilings of cpu"


def test_what_is_compared_takes_turns_after_a_warm_up() -> None:
    calls: list[str] = []
    seconds = interleave(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")},
        repeats=2,
        synchronize=lambda: calls.append("."),
    )
    assert "".join(calls) == "ab" + ".a..b." * 2
    assert {name: len(samples) for name, samples in seconds.items()} == {"a": 2, "b": 2}
    assert all(sample >= 0 for samples in seconds.values() for sample in samples)
    assert len(timed(lambda: None, repeats=3, warmup=0)) == 3
    with pytest.raises(ValueError, match="at least 1, not 0"):
        timed(lambda: None, repeats=0)


def test_a_process_knows_its_device_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert process.device_in_use("mps") == "mps"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert process.device_in_use("auto") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert process.device_in_use("auto") == "cuda"
    assert process.num_threads() == torch.get_num_threads()
    monkeypatch.delitem(sys.modules, "torch")
    assert process.num_threads() == os.cpu_count()
    assert process.device_in_use("auto") == "cpu"
