"""A progress bar on stderr, for work that turns out to take longer than a moment."""

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from fastmode.show import console

PATIENCE = 1.0  # s without a bar


class Bar:
    """`bar(text, share)` says what is being done, and which share of it is. The bar is gone when the work is over."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console(stderr=True), transient=True)
        self._task: TaskID | None = None
        self._begun = time.monotonic()

    def __enter__(self) -> "Bar":
        return self

    def __call__(self, text: str, share: float) -> None:
        if self._task is None and time.monotonic() - self._begun >= PATIENCE and self._progress.console.is_terminal:
            self._progress.start()
            self._task = self._progress.add_task(text, total=1.0)
        if self._task is not None:
            self._progress.update(self._task, description=text, completed=share)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._progress.stop()
