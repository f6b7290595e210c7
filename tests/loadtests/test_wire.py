"""The reader of responses: whatever way a response is cut into reads, it counts the same, and it counts right."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.wire import Events, Malformed, Response

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
TRAPS = st.sampled_from(
    ['"content":"', '","content":"x', "\n\ndata: [DONE]\n\n", ":", "data: [DONE]", '\\"', "\r\n", "0"]
)
TEXTS = st.text(max_size=8) | TRAPS


def event(payload: object) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"


def choice(index: int, delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


CHOICES = st.builds(choice, st.integers(0, 3), st.builds(lambda text: {"content": text}, TEXTS))
ROLES = st.builds(choice, st.integers(0, 3), st.just({"role": "assistant", "content": "", "refusal": None}))
FINISHES = st.builds(choice, st.integers(0, 3), st.just({}), st.sampled_from(["stop", "length"]))
CHUNKS = st.lists(CHOICES | ROLES | FINISHES, max_size=3).map(lambda choices: {"id": "x", "choices": choices})
LINES = st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])
COMMENTS = st.text(alphabet=LINES, max_size=8) | st.just('"content":"x"')
EVENTS = CHUNKS.map(event) | COMMENTS.map(lambda text: f":{text}\n\n".encode())


def pieces(events: list[bytes]) -> int:
    """What a client that decodes every event finds."""
    chunks = [json.loads(event.removeprefix(b"data: ")) for event in events if event.startswith(b"data: ")]
    return sum(bool(choice["delta"].get("content")) for chunk in chunks for choice in chunk["choices"])


@st.composite
def cut(draw: st.DrawFn, data: bytes, most: int = 12) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=most)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def chunked(parts: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"


@given(st.data(), st.lists(EVENTS, max_size=12))
def test_however_events_are_cut_the_same_pieces_of_content_are_counted(
    data: st.DataObject, events: list[bytes]
) -> None:
    counter = Events()
    assert sum(counter.feed(part) for part in data.draw(cut(b"".join(events)))) == counter.content == pieces(events)


@given(st.data(), st.lists(EVENTS, max_size=8), st.integers(0, 10_000))
def test_however_a_response_is_chunked_and_read_its_content_and_its_end_are_the_same(
    data: st.DataObject, events: list[bytes], completion: int
) -> None:
    usage = event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": completion, "other": {}}})
    stream = b"".join([*events, usage, b"data: [DONE]\n\n"])
    reads = data.draw(cut(HEAD + chunked(data.draw(cut(stream)))))
    response = Response()
    assert [response.feed(read, float(now)) for now, read in enumerate(reads) if read][-1]
    ending = response.ending()
    assert (response.status, response.content) == (200, pieces(events))
    assert ending.done
    assert ending.error is None
    assert ending.usage is not None
    assert ending.usage.completion_tokens == completion


@given(st.lists(st.lists(EVENTS, max_size=4), max_size=6))
def test_times_are_those_of_the_reads_that_brought_the_first_and_the_last_piece(flushes: list[list[bytes]]) -> None:
    response = Response()
    response.feed(HEAD, -1.0)
    for now, events in enumerate(flushes):
        if events:
            response.feed(chunked([b"".join(events)]).removesuffix(b"0\r\n\r\n"), float(now))
    brought = [float(now) for now, events in enumerate(flushes) if pieces(events)]
    assert response.reads == len(brought)
    assert (response.first, response.last) == ((brought[0], brought[-1]) if brought else (None, None))


@given(st.data(), st.binary(max_size=200))
def test_a_body_with_a_length_is_kept_as_it_is(data: st.DataObject, body: bytes) -> None:
    head = b"HTTP/1.1 404 Not Found\r\ncontent-length: %d\r\ncontent-type: application/json\r\n\r\n" % len(body)
    response = Response()
    overs = [response.feed(read, 0.0) for read in data.draw(cut(head + body))]
    assert overs[-1]
    assert (response.status, response.body, response.content) == (404, body, 0)


def test_an_error_event_is_told_from_the_end_of_a_complete_stream() -> None:
    counter = Events()
    counter.feed(event({"choices": [choice(0, {"content": "a"})]}) + event({"error": {"message": "lost"}}))
    ending = counter.ending()
    assert not ending.done
    assert ending.error is not None
    assert "lost" in ending.error


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the connection closes",
        HEAD + b"zz\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
    ],
)
def test_what_it_cannot_read_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        Response().feed(data, 0.0)
