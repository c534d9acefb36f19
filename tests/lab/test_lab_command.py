"""`inferlab lab` as a user meets it: list, run, status, show, import, export, and its errors."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from throwaway_lab import GOOD, Command, Lab, ended
from typer.testing import CliRunner, Result

from inferlab.cli import lab as lab_command
from inferlab.cli.main import app
from inferlab.errors import InferlabError
from inferlab.lab import lock, machine, schema, share
from inferlab.lab.progress import Progress


@pytest.fixture
def clone(lab: Lab, home: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The working directory of a reader: two snippets, nothing measured."""
    lab.records = home / "records"
    monkeypatch.chdir(lab.root)
    monkeypatch.setattr(machine, "ceilings_measurer", lambda device: lab.ceilings_measured.append)
    monkeypatch.setattr(lock.tempfile, "gettempdir", lambda: str(lab.root.parent))
    lab.snippet("prefill/length")
    lab.snippet("decode/length", GOOD.replace("How fast", "How slow"))
    return lab


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["lab", *arguments])


def test_the_command_knows_the_profiles_and_devices_of_the_records() -> None:
    assert {profile.value for profile in lab_command.Profile} == set(schema.PROFILES)
    assert {device.value for device in lab_command.Device} == set(schema.DEVICES)


def test_list_shows_each_question(clone: Lab) -> None:
    lines = call("list").stdout.splitlines()
    assert lines == [
        "decode/length   How slow is a fake clock?",
        "prefill/length  How fast is a fake clock?",
    ]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("prefill", ["prefill/length"]),
        ("prefill/length", ["prefill/length"]),
        ("snippets/prefill/length.py", ["prefill/length"]),
        ("length", ["decode/length", "prefill/length"]),
        ("pre", ["prefill/length"]),
        ("*/len*", ["decode/length", "prefill/length"]),
    ],
)
def test_names_are_full_short_a_chapter_a_beginning_or_a_glob(
    clone: Lab, asked: str, found: list[str]
) -> None:
    lines = call("list", asked).stdout.splitlines()
    assert [line.split()[0] for line in lines] == found


@pytest.mark.parametrize("command", ["list", "run", "status", "show", "export"])
def test_an_unknown_name_is_an_error_with_what_is_near(clone: Lab, command: str) -> None:
    done = call(command, "prefil/lenght")
    assert done.exit_code == 1
    assert "no snippet or chapter 'prefil/lenght'; did you mean prefill/length" in done.stderr
    done = call(command, "zzz")
    assert "`inferlab lab list` shows all" in done.stderr
    assert not clone.records.exists()


def test_run_measures_once_and_status_and_show_tell(clone: Lab) -> None:
    assert [s["state"] for s in json.loads(call("status", "--json").stdout)] == ["missing"] * 2
    done = call("run", "prefill")
    assert done.exit_code == 0, done.stderr
    assert "measured 1, already fresh 0, failed 0" in done.stdout
    assert "[1/1] prefill/length: done in" in done.stderr
    assert clone.ceilings_measured == [False]
    assert "measured 0, already fresh 1, failed 0" in call("run", "prefill").stdout
    assert clone.ceilings_measured == [False], "nothing to measure needs no ceilings"

    lines = call("status").stdout.splitlines()
    assert lines[0].split(maxsplit=2)[:2] == ["decode/length", "missing"]
    assert lines[1].split(maxsplit=2)[:2] == ["prefill/length", "fresh"]
    assert lines[2] == "1 fresh, 1 missing"
    facts = {fact["snippet"]: fact for fact in json.loads(call("status", "--json").stdout)}
    assert facts["decode/length"]["key"] is None
    assert facts["prefill/length"]["profile"] == "quick"
    assert len(facts["prefill/length"]["key"]) == 64

    shown = call("show", "prefill").stdout
    for part in ("work   time, s (low–high)", "0.110 (0.100–0.120)", "The clock was read 2 times."):
        assert part in shown
    for part in (
        "device    cpu",
        "repeats   2, profile quick",
        "python snippets/prefill/length.py",
    ):
        assert part in shown
    record = json.loads(call("show", "prefill", "--json").stdout)
    schema.check_record(record)


def test_show_says_that_a_result_is_stale_and_what_was_never_measured(clone: Lab) -> None:
    done = call("show", "prefill/length")
    assert done.exit_code == 1
    assert "never measured here in profile quick" in done.stderr
    assert "inferlab lab run prefill/length" in done.stderr
    call("run")
    clone.snippet("prefill/length", GOOD + "    # edited\n")
    shown = call("show", "*").stdout
    assert "STALE: the snippet itself changed" in shown
    assert len(json.loads(call("show", "length", "--json").stdout)) == 2


def test_show_and_run_of_what_is_not_measured_here(clone: Lab) -> None:
    clone.snippet(
        "gpu/only", GOOD.replace("rows =", "lab.require('package:no_such')\n    rows =", 1)
    )
    done = call("run", "gpu")
    assert "gpu/only: not measured, needs the Python package no_such, in" in done.stderr
    done = call("run", "gpu")
    why = "not measured on this machine: gpu/only (needs the Python package no_such)"
    assert why in done.stdout
    assert "UNAVAILABLE" in call("show", "gpu").stdout


def test_force_measures_again(clone: Lab) -> None:
    call("run", "prefill")
    assert "measured 1" in call("run", "prefill", "--force").stdout


def test_smoke_and_full_profiles_choose_sizes(clone: Lab) -> None:
    call("run", "prefill", "--profile", "full")
    record = json.loads(call("show", "prefill", "--json").stdout)
    assert [row["n"] for row in record["rows"]] == [1, 2, 4]


def test_it_works_from_any_folder_of_a_clone(clone: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = clone.root / "tests" / "deep"
    inner.mkdir(parents=True)
    (clone.root / "tests" / "snippets").mkdir()
    monkeypatch.chdir(inner)
    assert len(call("list").stdout.splitlines()) == 2
    call("run", "prefill")
    assert clone.status("prefill/length").state == "fresh"


def test_outside_a_clone_the_error_says_where_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inferlab.lab import store

    monkeypatch.chdir(tmp_path)
    fake = tmp_path / "site-packages" / "inferlab" / "files.py"
    monkeypatch.setattr(store.files, "__file__", str(fake))
    done = call("list")
    assert done.exit_code == 1
    assert f"no clone of inferlab (snippets/, mkdocs.yml) in {tmp_path}" in done.stderr
    (tmp_path / "snippets").mkdir()
    assert "no clone of inferlab" in call("list").stderr
    (tmp_path / "mkdocs.yml").touch()
    assert "no snippets in" in call("list").stderr


# Export and import


def from_elsewhere(path: Path, **environment: Any) -> dict[str, Any]:
    """Make the record at `path` one of another machine, with the key that it then has."""
    record: dict[str, Any] = json.loads(path.read_text())
    record["environment"] |= {"hardware_id": "nvidia-h200", **environment}
    record["environment"]["fingerprint"] = {"gpus": ["H200"]}
    record["key"] = schema.key_of(record)
    path.write_text(json.dumps(record))
    return record


def test_a_record_goes_to_another_clone_and_stays_the_same(clone: Lab, tmp_path: Path) -> None:
    call("run", "prefill")
    done = call("export", "--to", str(tmp_path / "out"))
    assert "left out decode/length, missing" in done.stderr
    path = tmp_path / "out" / "prefill__length.json"
    assert done.stdout.split() == [str(path)]
    record = from_elsewhere(path)

    done = call("import", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr
    target = clone.root / "docs" / "recorded" / "nvidia-h200" / "prefill__length.json"
    assert done.stdout.split() == [str(target)]
    assert json.loads(target.read_text()) == record
    assert call("import", str(path)).exit_code == 0, "the same again changes nothing"
    assert clone.status("prefill/length").state == "fresh", "it never takes this machine's place"


def test_import_replaces_another_record_only_when_told(clone: Lab, tmp_path: Path) -> None:
    call("run", "prefill")
    call("export", "prefill", "--to", str(tmp_path))
    path = tmp_path / "prefill__length.json"
    from_elsewhere(path)
    call("import", str(path))
    newer = from_elsewhere(path, python="3.99")
    done = call("import", str(path))
    assert done.exit_code == 1
    assert "holds another record; --force replaces it" in done.stderr
    assert call("import", str(path), "--force").exit_code == 0
    target = clone.root / "docs" / "recorded" / "nvidia-h200" / "prefill__length.json"
    assert json.loads(target.read_text()) == newer


def test_nothing_is_imported_when_one_record_is_unsound(clone: Lab, tmp_path: Path) -> None:
    call("run")
    out = tmp_path / "out"
    call("export", "--to", str(out))
    path = out / "prefill__length.json"
    whole = json.loads(path.read_text())
    spoilt: dict[str, tuple[dict[str, Any], str]] = {
        "altered": ({"parameters": {"n": 3}}, "its key does not match"),
        "empty": ({"rows": []}, "the table is empty"),
        "version": ({"schema_version": 99}, "schema version 99"),
        "unavailable": ({"status": "unavailable", "reason": "needs a GPU"}, "needs a GPU"),
        "smoke": ({"profile": "smoke"}, "only tests"),
        "hardware": ({"environment": whole["environment"] | {"hardware_id": "../x"}}, "hardware"),
        "unknown": ({"snippet": "prefill/other"}, "this clone has no such snippet"),
    }
    for change, expected in spoilt.values():
        record = {**whole, **change}
        if "parameters" not in change:
            record["key"] = schema.key_of(record)
        path.write_text(json.dumps(record))
        done = call("import", str(out))
        assert done.exit_code == 1
        assert expected in done.stderr
    path.write_text("{half")
    assert "is not JSON" in call("import", str(path)).stderr
    path.unlink()
    path.mkdir()
    assert f"cannot read {path}" in call("import", str(out)).stderr
    assert not (clone.root / "docs" / "recorded").exists()


def test_import_of_two_records_for_one_place_or_of_none(clone: Lab, tmp_path: Path) -> None:
    call("run", "prefill")
    for name in ("one", "two"):
        call("export", "prefill", "--to", str(tmp_path / "out" / name))
    assert "keep one" in call("import", str(tmp_path / "out")).stderr
    (tmp_path / "none").mkdir()
    assert "no records" in call("import", str(tmp_path / "none")).stderr
    with pytest.raises(InferlabError, match="cannot read"):
        share.read_record(tmp_path / "gone.json")


def test_nothing_fresh_to_export_is_an_error(clone: Lab, tmp_path: Path) -> None:
    done = call("export", "--to", str(tmp_path / "out"))
    assert done.exit_code == 1
    assert "no fresh record to export" in done.stderr
    assert not (tmp_path / "out").exists()


# Two labs, and the machine's ceilings


def test_a_second_lab_waits_for_the_first_and_finds_its_records(
    lab: Lab, command: Command, tmp_path: Path
) -> None:
    lab.snippet(
        "a/slow",
        f"""
        import time
        from pathlib import Path
        from inferlab import lab

        Path({str(tmp_path / "running")!r}).touch()
        while not Path({str(tmp_path / "go")!r}).exists():
            time.sleep(0.02)
        lab.record(rows=[{{"n": 1}}], columns=[lab.Column("n", "n")], finding="One.")
        """,
    )
    first = command("run")
    wait_for(tmp_path / "running")
    second = command("run")
    assert second.stderr is not None
    said = second.stderr.readline()
    assert f"another lab (process {first.pid}) is measuring on this machine; waiting" in said
    (tmp_path / "go").touch()
    status, out, err = ended(first)
    assert (status, "measured 1" in out) == (0, True), err
    status, out, err = ended(second)
    assert (status, "measured 0, already fresh 1" in out) == (0, True), err


def wait_for(path: Path) -> None:
    for _ in range(1500):
        if path.exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} never came")


def test_a_lock_file_that_a_dead_lab_left_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("12345")
    said: list[str] = []
    with lock.exclusive(path, said.append):
        assert path.read_text() == str(__import__("os").getpid())
        holder = subprocess.run(
            [sys.executable, "-c", HOLD, str(path)], capture_output=True, text=True, check=True
        )
    assert "waiting" in holder.stdout
    assert said == []


HOLD = """
import sys
from pathlib import Path
from inferlab.lab import lock

def say(text):
    print(text)
    raise SystemExit

with lock.exclusive(Path(sys.argv[1]), say):
    print("held by two")
"""


def test_the_ceilings_are_measured_by_a_process_of_its_own(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(command: list[str], **options: Any) -> "subprocess.CompletedProcess[str]":
        commands.append(command)
        return subprocess.CompletedProcess(command, len(commands) - 1, "", "one\ntwo\nthe cause\n")

    commands: list[list[str]] = []
    monkeypatch.setattr(machine.subprocess, "run", fake)
    measure = machine.ceilings_measurer("cpu")
    measure(False)
    assert commands[0][0] == sys.executable
    assert "hardware.ceilings('cpu', refresh=False)" in commands[0][2]
    with pytest.raises(InferlabError, match=r"could not measure .* \(cpu\):[\s\S]*the cause$"):
        measure(True)


def test_git_state_of_a_clone_and_of_none(tmp_path: Path) -> None:
    assert machine.git_state(tmp_path) == (None, False)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y.z"]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "First"]):
        subprocess.run([*git, *arguments], check=True)
    commit, dirty = machine.git_state(tmp_path)
    assert commit is not None
    assert (len(commit), dirty) == (40, False)
    (tmp_path / "new").touch()
    assert machine.git_state(tmp_path) == (commit, True)


def test_run_without_a_given_ui_uses_plain_lines_off_a_terminal(clone: Lab) -> None:
    from inferlab.lab.progress import best_progress

    assert type(best_progress()) is Progress
