"""A change makes exactly those records stale that it could have altered."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from throwaway_lab import GOOD, Lab

from inferlab import files, hardware
from inferlab.errors import InferlabError
from inferlab.lab import process, run, schema, store


@pytest.fixture
def copied(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The lab with a copy of the package, which its children import and a test may edit."""
    lab.package = tmp_path / "copy" / "inferlab"
    shutil.copytree(Path(files.__file__).parent, lab.package)
    monkeypatch.setenv("PYTHONPATH", str(lab.package.parent))
    lab.snippet("a/plain")
    lab.snippet("b/traced", GOOD.replace("from inferlab import lab", TRACED))
    assert lab.run().done == ["a/plain", "b/traced"]
    return lab


TRACED = "from inferlab import lab\n    import inferlab.trace.percentiles"
EDITS = {
    "trace/percentiles.py": ({"b/traced"}, "changed: inferlab.trace.percentiles"),
    "trace/__init__.py": ({"b/traced"}, "changed: inferlab.trace"),
    "lab/schema.py": ({"a/plain", "b/traced"}, "changed: inferlab.lab.schema"),
    "errors.py": ({"a/plain", "b/traced"}, "changed: inferlab.errors"),
    "lab/charts.py": (set(), ""),
    "lab/tables.py": (set(), ""),
    "engine/llm.py": (set(), ""),
    "cli/lab.py": (set(), ""),
}


def test_one_byte_makes_exactly_the_dependents_stale(copied: Lab) -> None:
    assert copied.package is not None
    for edited, (dependents, why) in EDITS.items():
        path = copied.package / edited
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        stale = {name for name, state in copied.states().items() if state == "stale"}
        assert stale == dependents, edited
        assert all(copied.status(name).why == why for name in stale)
        path.write_bytes(before)


def test_the_dependents_alone_are_measured_again(copied: Lab) -> None:
    assert copied.package is not None
    path = copied.package / "trace" / "percentiles.py"
    path.write_bytes(path.read_bytes() + b"\n")
    report = copied.run()
    assert report.done == ["b/traced"]
    assert [status.snippet for status in report.skipped] == ["a/plain"]
    assert set(copied.states().values()) == {"fresh"}
    path.write_bytes(path.read_bytes()[:-1])
    assert set(copied.states().values()) == {"fresh"}, "undone, the first record holds again"
    path.unlink()
    assert copied.states() == {"a/plain": "fresh", "b/traced": "stale"}


def test_prose_and_other_snippets_make_nothing_stale(lab: Lab) -> None:
    lab.snippet("a/x")
    lab.run()
    (lab.root / "docs").mkdir()
    (lab.root / "docs" / "index.md").write_text("# Prose\n")
    lab.snippet("a/y")
    assert lab.states() == {"a/x": "fresh", "a/y": "missing"}


def test_an_edited_snippet_is_stale(lab: Lab) -> None:
    path = lab.snippet("a/x")
    lab.run()
    path.write_text(path.read_text() + "# one more byte\n")
    status = lab.status("a/x")
    assert (status.state, status.why) == ("stale", "the snippet itself changed")
    assert status.record is not None


def test_a_snippet_edited_while_it_runs_is_stale(lab: Lab) -> None:
    text = GOOD.replace(
        "rows = ", "open(__file__, 'a').write('# edited meanwhile\\n')\n    rows = ", 1
    )
    lab.snippet("a/x", text)
    assert lab.run().done == ["a/x"]
    assert lab.status("a/x").why == "the snippet itself changed"


def test_other_hardware_python_and_packages_make_stale(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.snippet("a/x", GOOD.replace("from inferlab import lab", "import numpy\n    " + LAB))
    lab.run()
    with monkeypatch.context() as patch:
        patch.setattr(store, "fingerprint", lambda: {"cpu": "another"})
        assert lab.status("a/x").why == "the hardware or its driver changed"
    with monkeypatch.context() as patch:
        patch.setattr(store.platform, "python_version", lambda: "3.99")
        assert lab.status("a/x").why.endswith("-> 3.99")
    with monkeypatch.context() as patch:
        patch.setattr(store, "_version", lambda name: "0.0")
        status = lab.status("a/x")
        assert status.why.startswith("package numpy: ")
        assert status.why.endswith("-> 0.0")
    assert lab.status("a/x").state == "fresh"
    assert store.fingerprint() == schema.plain(hardware.fingerprint())
    store._version.cache_clear()
    assert store._version("no-such-package") == "not installed"


LAB = "from inferlab import lab"


def test_full_satisfies_quick_but_not_the_reverse(lab: Lab) -> None:
    lab.snippet("a/x")
    lab.run(profile="full")
    assert lab.status("a/x", "quick").state == "fresh"
    assert lab.run(profile="quick").done == []
    record = lab.status("a/x", "quick").record
    assert record is not None
    assert (record["profile"], len(record["rows"])) == ("full", 3)

    lab.snippet("a/y")
    lab.run("a/y", profile="quick")
    assert lab.status("a/y", "full").state == "missing"
    assert lab.status("a/y", "smoke").state == "fresh"


def test_a_record_of_one_device_does_not_stand_for_another(lab: Lab) -> None:
    lab.snippet("a/x")
    lab.run(device="cpu")
    assert lab.status("a/x", device="cpu").state == "fresh"
    assert lab.status("a/x", device="cuda").state == "missing"
    lab.snippet("a/y")
    lab.run("a/y", device="auto")
    assert lab.status("a/y", device="cpu").state == "fresh", "auto came to the CPU"
    assert lab.status("a/y", device="mps").state == "missing"


def test_a_snippet_that_cannot_run_here_says_so_and_is_not_run_again(lab: Lab) -> None:
    lab.snippet("a/gpu", GOOD.replace("rows =", "lab.require('package:no_such')\n    rows =", 1))
    report = lab.run()
    assert (report.done, report.failed) == (["a/gpu"], [])
    status = lab.status("a/gpu")
    assert (status.state, status.why) == ("unavailable", "needs the Python package no_such")
    assert lab.run().done == []


def test_a_full_disk_keeps_the_old_record(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.snippet("a/x")
    lab.run()
    before = {path: path.read_bytes() for path in lab.records.rglob("*") if path.is_file()}

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        report = lab.run(force=True)
    assert "No space left on device" in report.failed[0].reason
    after = {path: path.read_bytes() for path in lab.records.rglob("*") if path.is_file()}
    assert after == before
    assert lab.status("a/x").state == "fresh"


def test_a_damaged_record_counts_as_never_measured(lab: Lab) -> None:
    lab.snippet("a/x")
    lab.run()
    (path,) = lab.records.rglob("*.json")
    whole = path.read_text()
    for damaged in (whole[:500], whole.replace('"n": 2', '"n": 3'), "[]"):
        path.write_text(damaged)
        if damaged.startswith("{") and len(damaged) == len(whole):
            continue  # the rows are not part of the key
        assert lab.status("a/x").state == "missing"
    path.write_text(whole.replace('"python": "3', '"python": "4'))
    assert lab.status("a/x").state == "missing", "what the key covers was altered"


def test_only_the_newest_records_are_kept(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEEP", 2)
    for number in range(4):
        lab.snippet("a/x", GOOD + f"    # version {number}\n")
        lab.run()
        (newest,) = [r for r in lab.store().records("a/x") if r == lab.status("a/x").record]
        newest["run"]["started_at"] = f"2026-01-0{number + 1}T00:00:00+00:00"
        lab.store().save(newest)
    assert [r["run"]["started_at"][:10] for r in lab.store().records("a/x")] == [
        "2026-01-04",
        "2026-01-03",
    ]


def test_the_record_says_where_and_how(lab: Lab) -> None:
    lab.snippet("a/x")
    lab.run()
    record: dict[str, Any] = lab.status("a/x").record or {}
    assert record["environment"]["hardware_id"] == hardware.describe()["hardware_id"]
    assert record["run"]["command"] == "python snippets/a/x.py"
    assert record["run"]["repeats"] == 2
    assert record["run"]["peak_memory_bytes"] > 1e6
    assert record["rows"][0]["s"] == {
        "median": 0.11, "low": 0.1, "high": 0.12, "samples": [0.1, 0.12],
    }  # fmt: skip
    assert record["source"]["commit"] is None, "the clone is under no version control"
    assert set(record["noise"]) == {"load_average_1m", "others_busy", "steal", "over_s"}
    modules = record["source"]["modules"]
    assert "inferlab.lab.snippet" in modules
    assert not {"inferlab.lab.run", "inferlab.lab.charts", "inferlab.lab.store"} & set(modules)
    assert modules == {name: lab.store().digests()[name] for name in modules}


def test_records_of_snippets_that_are_no_more_are_an_error_to_ask_for(lab: Lab) -> None:
    with pytest.raises(InferlabError, match="no snippet 'a/gone'"):
        lab.status("a/gone")


def test_versions_of_a_package_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.schema, "TRACKED_PACKAGES", ("json",))
    assert process.versions(["json"])["json"] == __import__("json").__version__
    assert run.TIME_LIMIT_S["quick"] < run.TIME_LIMIT_S["full"]
