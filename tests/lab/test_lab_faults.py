"""What no honest run gives is an error that names the snippet, and costs no finished record."""

import os
import signal
import time
from pathlib import Path

import pytest
from throwaway_lab import Command, Lab, ended

RECORD = """
    from inferlab import lab

    def give(cell, unit="s", **column):
        lab.record(
            rows=[{{"v": cell, "top": 10.0}}],
            columns=[lab.Column("v", "value", unit, **column)],
            finding="A finding.",
        )

    print("about to record")
    {line}
"""
# What a snippet does wrong, and what the lab has to say about it.
FAULTS = {
    "raises": ("print('before'); raise ValueError('the cause')", ["ValueError: the cause", "line"]),
    "exits_with_0": ("print('bye'); import sys; sys.exit(0)", ["before it recorded", "bye"]),
    "exits_with_3": ("print('bye'); import sys; sys.exit(3)", ["exited with status 3", "bye"]),
    "silent": ("pass", ["before it recorded", "printed nothing"]),
    "killed": (
        "import os, signal; print('last words', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
        ["killed by SIGKILL", "enough memory", "last words"],
    ),
    "hangs": ("import time; print('waiting'); time.sleep(600)", ["did not end within", "waiting"]),
    "not_json": (
        "import os; open(os.environ['INFERLAB_RECORD_TO'], 'w').write('{half')",
        ["not JSON"],
    ),
    "second_record": (RECORD.format(line="give(1.0); give(2.0)"), ["exactly once"]),
    "nan": (RECORD.format(line="give(float('nan'))"), ["row 1, column 'v': nan", "about to"]),
    "nan_sample": (RECORD.format(line="give([1.0, float('inf')])"), ["inf is not a result"]),
    "zero_duration": (RECORD.format(line="give([0.1, 0.0])"), ["a duration of 0 s cannot be"]),
    "beyond_bound": (
        RECORD.format(line="give(11.0, 'tok/s', at_most='top')"),
        ["11 is beyond its physical bound 10 tok/s"],
    ),
    "below_bound": (
        RECORD.format(line="give(3.0, 'ms', at_least=4)"),
        ["3 is beyond its physical bound 4 ms"],
    ),
    "empty_table": (
        "from inferlab import lab\n"
        "lab.record(rows=[], columns=[lab.Column('n', 'n')], finding='Nothing.')",
        ["the table is empty"],
    ),
    "no_columns": (
        "from inferlab import lab\nlab.record(rows=[{'n': 1}], columns=[], finding='Nothing.')",
        ["no columns"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_reported_with_name_and_last_lines_and_costs_no_record(
    lab: Lab, fault: str
) -> None:
    lab.snippet("a/good")
    text, expected = FAULTS[fault]
    lab.snippet(f"b/{fault}", text)
    lab.snippet("c/good")
    report = lab.run(time_limit_s=1.5 if fault == "hangs" else 60)
    assert report.done == ["a/good", "c/good"]
    assert [error.snippet for error in report.failed] == [f"b/{fault}"]
    for said in (str(report.failed[0]), lab.said.getvalue()):
        assert f"snippet b/{fault}" in said
        for part in expected:
            assert part in said
    assert lab.states() == {"a/good": "fresh", f"b/{fault}": "failed", "c/good": "fresh"}
    assert not list((lab.records / "b" / fault).glob("*.json"))


def test_a_failure_is_forgotten_when_the_snippet_changes_or_succeeds(lab: Lab) -> None:
    path = lab.snippet("a/x", "raise ValueError('the cause')")
    lab.run()
    assert lab.status("a/x").state == "failed"
    assert "ValueError: the cause" in lab.status("a/x").why
    path.write_text("raise ValueError('another')\n")
    assert lab.status("a/x").state == "missing"
    lab.snippet("a/x")
    assert lab.run().done == ["a/x"]
    assert lab.status("a/x").state == "fresh"


def test_a_failed_run_keeps_the_record_of_the_run_before(lab: Lab) -> None:
    lab.snippet("a/x")
    lab.run()
    before = sorted(lab.records.rglob("*.json"))
    lab.snippet("a/x", "raise ValueError")
    assert len(lab.run().failed) == 1
    assert sorted(lab.records.rglob("*.json")) == before
    status = lab.status("a/x")
    assert status.state == "failed"
    assert status.record is not None, "the older result can still be shown"


def test_a_result_beyond_the_roofline_is_measured_again_against_new_ceilings(lab: Lab) -> None:
    """The first ceiling was too low: with a better one the same result is honest."""
    lab.snippet(
        "a/roof",
        """
        from pathlib import Path
        from inferlab import lab

        peak = float(Path(__file__).with_name("peak.txt").read_text())
        lab.record(
            rows=[{"name": "matmul", "intensity": 100.0, "flop_s": 2e9}],
            columns=[lab.Column("name", "work")],
            finding="A finding.",
            chart=lab.Chart(
                "roofline", options={"peak_flop_s": peak, "bandwidth_bytes_s": 1e9}
            ),
        )
        """,
    )
    peak = lab.root / "snippets" / "a" / "peak.txt"
    peak.write_text("1e9")
    anew: list[bool] = []

    def measure(refresh: bool) -> None:
        anew.append(refresh)
        if refresh:
            peak.write_text("3e9")

    assert lab.run(measure_ceilings=measure).done == ["a/roof"]
    assert anew == [False, True]
    assert "measuring the ceilings and the snippet again" in lab.said.getvalue()

    anew.clear()
    peak.write_text("1e9")
    report = lab.run(force=True, measure_ceilings=anew.append)
    assert anew == [False, True], "one retry, no more"
    assert "2e+09 is beyond its physical bound 1e+09 FLOP/s" in report.failed[0].reason


def test_a_hanging_snippet_ends_with_all_that_it_started(lab: Lab, tmp_path: Path) -> None:
    lab.snippet(
        "a/parent",
        f"""
        import signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
        time.sleep(600)
        """,
    )
    assert len(lab.run(time_limit_s=1).failed) == 1
    pid = int((tmp_path / "pid").read_text())
    assert gone(pid)


def gone(pid: int, within_s: float = 5) -> bool:
    """Whether the process ends soon; a zombie that nobody has collected counts as ended."""
    for _ in range(int(within_s / 0.05)):
        try:
            os.kill(pid, 0)
            stat = Path(f"/proc/{pid}/stat")
            if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_fail_fast_stops_at_the_first_failure(lab: Lab) -> None:
    lab.snippet("a/bad", "raise ValueError")
    lab.snippet("b/good")
    report = lab.run(fail_fast=True)
    assert (len(report.failed), report.done) == (1, [])


def test_a_chatty_snippet_is_read_to_its_end_and_only_its_tail_kept(lab: Lab) -> None:
    lab.snippet("a/chatty", "for i in range(100_000): print('line', i)\nraise SystemExit(2)")
    error = lab.run().failed[0]
    assert error.tail.splitlines()[-1] == "line 99999"
    assert len(error.tail.splitlines()) == 20


def test_the_command_fails_names_the_snippet_and_keeps_the_others(
    lab: Lab, command: Command
) -> None:
    lab.snippet("a/good")
    lab.snippet("b/bad", "print('the last line')\nraise ValueError('the cause')")
    status, out, err = ended(command("run"))
    assert status == 1, err
    assert "measured 1, already fresh 0, failed 1" in out, err
    assert "error: 1 failed: b/bad" in err
    assert "snippet b/bad: raised ValueError: the cause" in err
    assert "the last line" in err
    assert lab.states() == {"a/good": "fresh", "b/bad": "failed"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_is_finished_and_the_next_goes_on(
    lab: Lab, command: Command, tmp_path: Path, number: signal.Signals
) -> None:
    lab.snippet("a/first")
    path = lab.snippet(
        "b/slow",
        f"""
        import os, time
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        time.sleep(600)
        """,
    )
    process = command("run")
    for _ in range(600):
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
        time.sleep(0.05)
    process.send_signal(number)
    status, _, err = ended(process)
    assert status == 130
    assert "finished records are kept" in err
    assert "Traceback" not in err
    assert gone(int((tmp_path / "pid").read_text())), "the running snippet ended too"
    assert lab.states() == {"a/first": "fresh", "b/slow": "missing"}

    path.unlink()
    lab.snippet("b/slow")
    status, out, err = ended(command("run"))
    assert status == 0, err
    assert "measured 1, already fresh 1" in out
    assert "a/first" not in err
