"""Checks one service with whichever generation of a client is installed, and says what it found.

    python run.py CLIENT BASE_URL [WORDS...]

A line of JSON for each check of the client: {area, name, sentence, outcome, why}; `outcome` is passed, failed, or
lacking, where this generation cannot ask for it. WORDS choose checks by their names. Runs where nothing but the client
is installed.
"""

import importlib
import json
import sys
import traceback

import features


def main(client: str, url: str, *words: str) -> None:
    checks = features.load(client)
    door = importlib.import_module(f"features.{client}_door").Door(url)
    for check in checks:
        if not words or any(word in check.name or word in check.area for word in words):
            outcome, why = _outcome(check, door)
            row = {"area": check.area, "name": check.name, "sentence": check.sentence, "outcome": outcome, "why": why}
            print(json.dumps(row), flush=True)


def _outcome(check: features.Feature, door: object) -> tuple[str, str]:
    try:
        check.check(door)
    except features.Lacking as lacking:
        return "lacking", str(lacking)
    except Exception as error:  # noqa: BLE001 - whatever a client does instead of what is expected is a finding
        return "failed", f"line {traceback.extract_tb(error.__traceback__)[1].lineno}: {type(error).__name__}: {error}"[
            :400
        ]
    return "passed", ""


if __name__ == "__main__":
    main(*sys.argv[1:])
