"""Do other people's load clients see what ours sees, and what the engine's plan says? Each has its own environment.

    python -m loadtests.acceptance DIRECTORY

DIRECTORY holds the environments; what is missing there is installed from wheels. Each client gets the service to
itself, at a load that it can measure: three streams, some hundreds of tokens a second. It counts tokens with the
service's own vocabulary, which is written to a directory for it. Exits with 1 when a client fails, or sees something
else.
"""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from fastmode.show import console, table
from loadtests import vocabulary
from loadtests.bench import stand
from loadtests.conduct import Setting, once
from loadtests.scenario import Closed, Scenario, Talk
from loadtests.summary import Tier
from planning.workload import lengths

MODEL = "gpt-5.3-codex"
REQUESTS, CLIENTS, INPUT, OUTPUT = 60, 3, 256, 64
_TIMEOUT = 300.0  # s for one client
_TPOT_WITHIN, _TTFT_WITHIN = 0.03, 0.05  # relative, of the plan; s, of ours: front ends scatter

Seen = tuple[float, float, float]  # medians of TTFT (s) and TPOT (s), and mean output tokens


@dataclass(frozen=True, slots=True)
class Client:
    """`tier` that it asks for; `command` given the URL, the vocabulary and a directory; `read` what it wrote there."""

    name: str
    requirement: str
    tier: str
    command: Callable[[str, Path, Path], Sequence[str]]
    read: Callable[[Path], Seen]
    environ: Mapping[str, str]


def main(directory: Path) -> int:
    shown = table("client", "tier", ">TTFT p50, ms", ">ours", ">plan", ">TPOT p50, ms", ">ours", ">plan", ">tokens", "")
    failed = False
    with TemporaryDirectory() as made:
        words = Path(made, "vocabulary")
        vocabulary.write(words)
        with stand.service(None, [offer.pool for offer in stand.sold(None, MODEL, "standard", "fast")]) as service:
            for client in CLIENTS_KNOWN:
                ours, planned = _ours(service, client.tier)
                try:
                    seen = _theirs(client, directory, service.base_url, words, Path(made, client.name))
                except (subprocess.SubprocessError, OSError, LookupError, ValueError) as error:
                    failed = True
                    shown.add_row(client.requirement, client.tier, *[""] * 7, f"failed: {str(error)[:200]}")
                    continue
                faults = list(_faults(seen, ours, planned))
                failed |= bool(faults)
                shown.add_row(
                    client.requirement,
                    client.tier,
                    *(f"{1e3 * value:.1f}" for value in (seen[0], ours.ttft["p50"].value, planned.ttft["p50"].value)),
                    *(f"{1e3 * value:.2f}" for value in (seen[1], ours.tpot["p50"].value, planned.tpot["p50"].value)),
                    f"{seen[2]:g}",
                    "; ".join(faults) or "agrees",
                )
    console().print(shown)
    return int(failed)


def _ours(service: stand.Service, tier: str) -> tuple[Tier, Tier]:
    """What our client sees of the same load, and what is planned."""
    scenario = Scenario(
        name="acceptance",
        about="what the others ask for",
        model=MODEL,
        dialect="openai",
        seconds=_TIMEOUT,
        seed=7,
        load=Closed(levels=(CLIENTS,)),
        work=Talk(input=lengths(str(INPUT)), output=lengths(str(OUTPUT)), turns=lengths("1")),
        mix={tier: 1.0},
        most=REQUESTS,
    )
    setting = Setting(base_url=f"{service.base_url}/v1", key=None, catalog=service.catalog, predicting=True)
    found, _ = once(scenario, setting)
    return found.tiers[0], found.predicted[0]


def _theirs(client: Client, directory: Path, url: str, words: Path, out: Path) -> Seen:
    """Raises SubprocessError, OSError, LookupError, ValueError."""
    home = directory / client.requirement.replace("==", "-").replace("[hf]", "")
    if not (home / "installed").is_file():
        print(f"installing {client.requirement} into {home}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        pip = (str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "-qq", "install")
        subprocess.run([*pip, "--only-binary", ":all:", client.requirement], check=True)  # noqa: S603
        (home / "installed").touch()
    out.mkdir()
    name, *arguments = client.command(url, words, out)
    ran = subprocess.run(  # noqa: S603 - what is named below
        [home / "bin" / name, *arguments],
        env={**os.environ, **client.environ},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    if ran.returncode:
        raise ValueError(f"exit code {ran.returncode}: {(ran.stderr or ran.stdout).strip()[-300:]}")
    return client.read(out)


def _faults(seen: Seen, ours: Tier, planned: Tier) -> list[str]:
    ttft, tpot, tokens = seen
    faults = []
    if abs(ttft - ours.ttft["p50"].value) > _TTFT_WITHIN:
        faults.append("another TTFT")
    if abs(tpot / planned.tpot["p50"].value - 1) > _TPOT_WITHIN:
        faults.append("another TPOT")
    if tokens != OUTPUT:
        faults.append("other lengths")
    return faults


def _aiperf(url: str, words: Path, out: Path) -> Sequence[str]:
    load = ("--concurrency", str(CLIENTS), "--request-count", str(REQUESTS), "--isl", str(INPUT), "--osl", str(OUTPUT))
    extra = ("--extra-inputs", "service_tier:priority", "--extra-inputs", "ignore_eos:true")
    quiet = ("--ui", "none", "--no-gpu-telemetry", "--random-seed", "7", "--artifact-dir", str(out))
    where = ("--model", MODEL, "--url", url, "--endpoint-type", "chat", "--streaming", "--tokenizer", str(words))
    return ("aiperf", "profile", *where, *load, *extra, *quiet)


def _aiperf_read(out: Path) -> Seen:
    document: dict[str, Any] = json.loads((out / "profile_export_aiperf.json").read_text())
    ttft, itl = (document[name]["p50"] / 1e3 for name in ("time_to_first_token", "inter_token_latency"))
    return ttft, itl, document["output_sequence_length"]["avg"]


def _servebench(url: str, words: Path, out: Path) -> Sequence[str]:
    load = ("--concurrency", str(CLIENTS), "--num-requests", str(REQUESTS))
    sizes = ("--input-len", str(INPUT), "--output-len", str(OUTPUT), "--tokenizer", str(words), "--no-gpu")
    return ("servebench", "run", "--url", f"{url}/v1", "--model", MODEL, *load, *sizes, "--out", str(out / "run.json"))


def _servebench_read(out: Path) -> Seen:
    document: dict[str, Any] = json.loads((out / "run.json").read_text())
    requests = [each for level in document["levels"] for each in level["requests"]]
    ttft = median(each["ttft"] for each in requests)
    tpot = median((each["chunk_times"][-1] - each["ttft"]) / (each["output_tokens"] - 1) for each in requests)
    return ttft, tpot, sum(each["output_tokens"] for each in requests) / len(requests)


CLIENTS_KNOWN = (
    Client("aiperf", "aiperf==0.13.0", "fast", _aiperf, _aiperf_read, {}),
    Client("servebench", "servebench[hf]==1.1.3", "standard", _servebench, _servebench_read, {"HF_HUB_OFFLINE": "1"}),
)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
