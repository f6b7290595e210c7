"""Request traces in the formats in which they are published, and what is said of files that are none."""

import gzip
import json
from pathlib import Path

import pytest

from service.errors import TraceError
from service.traces import MOONCAKE_BLOCK, Arrival, profile, read

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 23:59:59.5000000,374,44
2023-11-17 00:00:01.2500000,396,109
2023-11-17 00:00:01.0000000,12,1
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,1087,0,1087,API log
118,ChatGPT,417,276,693,API log
"""
MOONCAKE = [
    {"timestamp": 3000, "input_length": 1100, "output_length": 500, "hash_ids": [0, 1, 2]},
    {"timestamp": 4500, "input_length": 600, "output_length": 20, "hash_ids": [0, 7]},
]


def test_azure_is_read_in_the_order_of_time_across_midnight(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(AZURE)
    trace = read(tmp_path / "a.csv")
    assert trace.arrivals == (Arrival(0, 374, 44), Arrival(1.5, 12, 1), Arrival(1.75, 396, 109))
    assert trace.block == 0


def test_requests_that_failed_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(BURSTGPT)
    trace = read(tmp_path / "b.csv")
    assert trace.arrivals == (Arrival(0, 472, 18), Arrival(113, 417, 276))
    assert trace.left_out == 1


@pytest.mark.parametrize("zipped", [False, True])
def test_mooncake_names_the_beginnings_of_prompts(tmp_path: Path, zipped: bool) -> None:
    text = "\n".join(map(json.dumps, MOONCAKE)) + "\n"
    path = tmp_path / "m.jsonl"
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    trace = read(path)
    assert trace.arrivals == (Arrival(0, 1100, 500, (0, 1, 2)), Arrival(1.5, 600, 20, (0, 7)))
    assert trace.block == MOONCAKE_BLOCK


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,b\n1,2\n", "its first line is none of a known trace"),
        ("", "its first line is none of a known trace"),
        (AZURE + "yesterday,1,2\n", "line 5 is no request"),
        (AZURE + "2023-11-17 00:00:02,1\n", "line 5 is no request"),
        (BURSTGPT + "nan,x,1,2,3,y\n", "line 5 has a time that is no number"),
        (BURSTGPT + "9,x,-1,2,3,y\n", "line 5 has a time that is no number, or less than no tokens"),
        ('{"timestamp": 1, "input_length": 5}\n', "line 1 is no Mooncake request"),
        (json.dumps(MOONCAKE[0]) + "\n[]\n", "line 2 is no Mooncake request"),
        ('{"timestamp": 1, "input_length": 1e999, "output_length": 1}\n', "line 1 is no Mooncake request"),
        (AZURE.splitlines()[0] + "\n", "no request has prompt and output tokens, of 0"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(TraceError) as refused:
        read(path)
    assert complaint in str(refused.value)


def test_a_file_that_is_not_there_or_cut_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read as a trace"):
        read(tmp_path / "nowhere")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(json.dumps(MOONCAKE[0]).encode() * 99)[:40])
    with pytest.raises(TraceError):
        read(tmp_path / "cut.gz")
    whole = bytearray(gzip.compress(json.dumps(MOONCAKE).encode()))
    whole[12:20] = bytes(8)
    (tmp_path / "spoilt.gz").write_bytes(whole)
    with pytest.raises(TraceError):
        read(tmp_path / "spoilt.gz")


def test_a_time_may_say_where_it_is_noon(tmp_path: Path) -> None:
    """As those of Azure's trace of 2024 do."""
    stamps = ["2024-05-10 00:00:00.009930+00:00", "2024-05-10 02:00:01.009930+02:00"]
    (tmp_path / "a.csv").write_text("\n".join((AZURE.splitlines()[0], *(f"{stamp},5,6" for stamp in stamps))))
    assert [arrival.time for arrival in read(tmp_path / "a.csv").arrivals] == [0, 1]


def test_a_profile_is_the_demand_in_equal_parts_of_the_time(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("Timestamp,Request tokens,Response tokens\n0,1,30\n9,1,30\n10,1,60\n")
    assert profile(read(tmp_path / "b.csv"), 2) == (0.5, 1.5)
    assert sum(profile(read(tmp_path / "b.csv"), 7)) == pytest.approx(7)


@pytest.mark.parametrize(
    ("name", "requests", "output"),
    [
        ("azure2023_code.csv", 8819, 245_896),
        ("azure2023_conv.csv", 19_366, 4_088_665),
        ("mooncake_conversation.jsonl.gz", 12_031, 4_122_048),
    ],
)
def test_the_published_traces_are_read_whole(name: str, requests: int, output: int) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here: traces do not ship with the repository")
    trace = read(path)
    assert len(trace.arrivals) + trace.left_out == requests
    assert sum(arrival.output for arrival in trace.arrivals) == output
