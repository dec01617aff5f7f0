"""Progress bars: on a terminal and in a notebook, and nowhere else."""
from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Any, Callable, Optional, Union

Progress = Union[None, bool, Callable[[int, int], Any]]

_QUIET_SECONDS = 0.5  # what takes less has no bar
_STEP_SECONDS = 0.1


def _notebook() -> bool:
    return "ipykernel" in sys.modules


def shown() -> bool:
    """Whether somebody looks."""
    if os.environ.get("MICA_PROGRESS", "") == "0":
        return False
    return _notebook() or bool(getattr(sys.stderr, "isatty", lambda: False)())


class Bar:
    """A line that is drawn over again: "loading  [#####     ]  52%  1.2 s"."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._start = time.monotonic()
        self._last = self._start
        self._handle: Any = None
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._start < _QUIET_SECONDS or now - self._last < _STEP_SECONDS:
            return
        self._last = now
        share = min(1.0, done / total) if total else 0.0
        self.say("%s  [%-20s] %3d%%  %.0f s" % (
            self.label, "#" * int(20 * share), int(100 * share), now - self._start))

    def say(self, line: str) -> None:
        self._drawn = True
        if _notebook():
            self._show(line)
        else:
            sys.stderr.write("\r\033[K" + line)
            sys.stderr.flush()

    def _show(self, line: str) -> None:
        bundle = {"text/plain": line}
        if self._handle is None:
            display: Any = importlib.import_module("IPython.display")
            self._handle = display.display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def end(self) -> None:
        """Wipes it from the terminal; in a notebook it stays."""
        if self._drawn and not _notebook():
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def bar_of(progress: Progress, label: str) -> Optional[Callable[[int, int], Any]]:
    """What progress=... asks for. None: a bar where somebody looks; False: none; True: a bar; else
    a function of what is done and of how much there is."""
    if progress is None:
        progress = shown()
    if progress is False:
        return None
    return Bar(label) if progress is True else progress


def end(bar: Optional[Callable[[int, int], Any]]) -> None:
    if isinstance(bar, Bar):
        bar.end()
