"""What the terminal shows while the lab measures: which snippet, how many are left, how long."""

import sys
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TextIO


class Progress:
    """Plain lines, for a log or a pipe. A terminal gets `LiveProgress`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.names: Sequence[str] = ()
        self.expected: dict[str, float | None] = {}
        self.number = 0
        self.spent: dict[str, float] = {}

    def plan(self, names: Sequence[str], expected: Mapping[str, float | None]) -> None:
        """Announce what will be measured, with the seconds each took before, where known."""
        self.names, self.expected = names, dict(expected)
        about = f", about {duration(left)}" if (left := self.left_s()) is not None else ""
        self.say(f"measuring {len(names)} snippet{'s' if len(names) != 1 else ''}{about}")

    def start(self, name: str) -> None:
        """A snippet begins."""
        self.number += 1
        took = self.expected.get(name)
        hint = f" (took {duration(took)} before)" if took is not None else ""
        self.say(f"{self._place()} {name}{hint}")

    def finish(self, name: str, outcome: str, seconds: float) -> None:
        """A snippet ended: outcome is a word or two, such as "done" or "FAILED"."""
        self.spent[name] = seconds
        left = self.left_s()
        rest = f", about {duration(left)} left" if left else ""
        self.say(f"{self._place()} {name}: {outcome} in {duration(seconds)}{rest}")

    def say(self, text: str) -> None:
        """Print one line."""
        print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """Leave the terminal as it was."""

    def left_s(self) -> float | None:
        """Seconds that the snippets not yet ended should take; None when nothing is known."""
        known = [seconds for seconds in self.expected.values() if seconds is not None]
        known = known or list(self.spent.values())
        if not known:
            return None
        typical = sum(known) / len(known)
        left = [self.expected.get(name) for name in self.names if name not in self.spent]
        return float(sum(typical if seconds is None else seconds for seconds in left))

    def _place(self) -> str:
        return f"[{self.number}/{len(self.names)}]"


class LiveProgress(Progress):
    """Rich's bar on a terminal. It redraws once a second: more would disturb the measurement."""

    def plan(self, names: Sequence[str], expected: Mapping[str, float | None]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[rest]}"),
            console=Console(file=self.stream),
            refresh_per_second=1,
            transient=True,
        )
        super().plan(names, expected)
        self.task = self.bar.add_task("", total=len(names), rest="")
        self.bar.start()

    def start(self, name: str) -> None:
        self.number += 1
        self.started = monotonic()
        left = self.left_s()
        rest = f"about {duration(left)} left" if left else ""
        self.bar.update(self.task, description=name, rest=rest, refresh=True)

    def finish(self, name: str, outcome: str, seconds: float) -> None:
        super().finish(name, outcome, seconds)
        self.bar.advance(self.task)

    def say(self, text: str) -> None:
        if hasattr(self, "bar"):
            self.bar.console.print(text, markup=False, highlight=False)
        else:
            super().say(text)

    def close(self) -> None:
        if hasattr(self, "bar"):
            self.bar.stop()


def best_progress(stream: TextIO | None = None) -> Progress:
    """A live bar on a terminal, plain lines elsewhere."""
    stream = stream or sys.stderr
    return LiveProgress(stream) if stream.isatty() else Progress(stream)


def duration(seconds: float) -> str:
    """Seconds as a reader says them: "0.4 s", "12 s", "3 min 5 s"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
