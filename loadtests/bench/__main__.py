"""The command `python -m loadtests.bench`: runs the sections asked for, prints a table for each, and can write JSON.

Exit code 0 when everything was measured, whatever the figures say; 1 when a section could not be.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from loadtests.bench import report
from loadtests.bench.report import Sheet
from loadtests.client import Wrong
from loadtests.wire import Malformed
from service.errors import FastmodeError

SECTIONS = ("pace", "overhead", "throughput", "encoding", "abort", "idle", "plan", "tiers", "clients")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    out, about = report.console(), report.machine()
    out.print(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in about.items()))
    sheets: list[Sheet] = []
    failed = False
    began = time.monotonic()
    for section in options.only:
        try:
            for sheet in _run(section):
                report.show(out, sheet)
                sheets.append(sheet)
        except (FastmodeError, Wrong, Malformed, OSError, ImportError) as error:
            failed = True
            out.print(f"\n{section} could not be measured: {error}", style="red", markup=False, soft_wrap=True)
    out.print(f"\n{len(sheets)} measurements in {time.monotonic() - began:.0f} s")
    if options.json is not None:
        report.write(options.json, about, sheets)
    return int(failed)


def _run(section: str) -> Iterator[Sheet]:
    """Sections are loaded when they run: one needs the OpenAI SDK, which only development installs."""
    sheets: Iterator[Sheet] = import_module(f"loadtests.bench.{section}").run()
    return sheets


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.bench", description="Measure what the service delivers and what it costs."
    )
    parser.add_argument("--only", type=_sections, default=SECTIONS, help=f"sections, of: {','.join(SECTIONS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    return parser.parse_args(arguments)


def _sections(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(SECTIONS)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
