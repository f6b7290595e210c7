"""The chat dialect outwards as a pure function: any events of any parts to chunks, and to one whole answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from service.errors import Broken
from service.messages import Delta, FinishReason, Part, Usage
from service.wire.gathered import Gathered
from service.wire.openai_chat_answer import Chunks, Head, Manner, completion

HEAD = Head("chatcmpl-1", 1796000000, 'a "model"', "priority", "fp_1")
USAGE = Usage(prompt=7, cached=2, completion=5, reasoning=3, accepted=1, rejected=2)
FINISHES: list[FinishReason] = ["stop", "length", "tool_calls", "content_filter"]
CUSTOM = "patch"
KEYS = "id object created model service_tier system_fingerprint choices usage obfuscation".split()  # noqa: SIM905


@dataclass(frozen=True)
class Said:
    """One part: the texts of its tokens, some of which may be empty."""

    part: Part
    texts: list[str]

    @property
    def text(self) -> str:
        return "".join(self.texts)


@dataclass(frozen=True)
class Answer:
    """One choice; `silent` tokens without any text follow those of its parts."""

    said: list[Said]
    silent: int
    finish: FinishReason

    def of(self, kind: str) -> list[Said]:
        return [said for said in self.said if said.part.kind == kind]

    def deltas(self, choice: int, cuts: list[int], logprobs: bool) -> Iterator[Delta]:
        """The choice as a worker tells it, in runs that end at the cuts and at the ends of parts."""
        offset = 0
        for number, said in enumerate(self.said):
            last = number == len(self.said) - 1
            total = len(said.texts) + (self.silent if last else 0)
            start = 0
            for end in [*sorted({cut for cut in cuts if 0 < cut < total}), total]:
                pieces = said.texts[start:end]
                yield Delta(
                    "job",
                    1,
                    choice,
                    offset + start,
                    end - start,
                    b"\n".join(map(escaped, pieces)),
                    self.finish if last and end == total else None,
                    said.part if start == 0 else None,
                    b"\n".join(orjson.dumps(logprob(text)) for text in pieces if text) if logprobs else b"",
                )
                start = end
            offset += total


def escaped(text: str) -> bytes:
    return orjson.dumps(text)[1:-1]


def logprob(text: str) -> dict[str, Any]:
    return {"token": text, "logprob": -0.5, "bytes": list(text.encode()), "top_logprobs": []}


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
tokens = st.lists(words | st.just(""), min_size=1, max_size=6)
names = st.sampled_from(["look", "say", CUSTOM])
answers = st.builds(
    lambda reasoning, text, calls, silent, finish: Answer([*reasoning, *text, *calls], silent, finish),
    st.lists(st.builds(Said, st.just(Part("reasoning")), tokens), max_size=1),
    st.lists(st.builds(Said, st.just(Part("text")), tokens), max_size=1),
    st.lists(
        st.builds(Said, st.builds(Part, st.just("tool_call"), names, st.sampled_from(["", "call_own"])), tokens),
        max_size=3,
    ),
    st.integers(0, 2),
    st.sampled_from(FINISHES),
).filter(lambda answer: bool(answer.said))
manners = st.builds(Manner, st.booleans(), st.booleans(), st.just(frozenset({CUSTOM})))


@st.composite
def conversations(draw: st.DrawFn, logprobs: bool = False) -> tuple[list[Answer], list[Delta]]:
    """Answers, and their deltas in any order that keeps each choice's own."""
    drawn = draw(st.lists(answers, min_size=1, max_size=3))
    cuts = st.lists(st.integers(1, 9), max_size=4)
    queues = [list(answer.deltas(choice, draw(cuts), logprobs)) for choice, answer in enumerate(drawn)]
    order = draw(st.permutations([choice for choice, queue in enumerate(queues) for _ in queue]))
    return drawn, [queues[choice].pop(0) for choice in order]


def payloads(stream: bytes) -> list[bytes]:
    """The data of each event. Every event is one line, and the last one is whole."""
    assert stream.endswith(b"\n\n")
    events = stream[:-2].split(b"\n\n")
    assert all(event.startswith(b"data: ") and b"\n" not in event for event in events)
    return [event.removeprefix(b"data: ") for event in events]


def chunks(count: int, deltas: list[Delta], manner: Manner) -> list[dict[str, Any]]:
    encoder = Chunks(HEAD, count, manner)
    stream = encoder.opening(USAGE) + b"".join(map(encoder.delta, deltas)) + encoder.closing(USAGE)
    *said, done = payloads(stream)
    assert done == b"[DONE]"
    return [orjson.loads(chunk) for chunk in said]


def whole(count: int, deltas: list[Delta], manner: Manner) -> dict[str, Any]:
    gathered = Gathered(count)
    for delta in deltas:
        gathered.add(delta)
    said: dict[str, Any] = orjson.loads(completion(HEAD, gathered.answers, USAGE, manner))
    return said


@given(conversations(), manners)
def test_every_chunk_says_what_it_belongs_to(told: tuple[list[Answer], list[Delta]], manner: Manner) -> None:
    said = chunks(len(told[0]), told[1], manner)
    absent = {"usage"} if not manner.include_usage else set()
    absent |= {"obfuscation"} if not manner.obfuscate else set()
    for chunk in said:
        assert list(chunk) == [key for key in KEYS if key not in absent]
        assert (chunk["id"], chunk["object"]) == ("chatcmpl-1", "chat.completion.chunk")
        assert (chunk["created"], chunk["model"]) == (1796000000, 'a "model"')
        assert (chunk["service_tier"], chunk["system_fingerprint"]) == ("priority", "fp_1")
        assert 0 < len(chunk.get("obfuscation", "x")) <= 16
    if manner.include_usage:
        last = said.pop()
        assert last["choices"] == []
        assert last["usage"]["total_tokens"] == 12
        assert all(chunk["usage"] is None for chunk in said)
    assert all(len(chunk["choices"]) == 1 for chunk in said)


@given(conversations(), manners)
def test_a_choice_is_a_role_and_fragments_and_an_end(told: tuple[list[Answer], list[Delta]], manner: Manner) -> None:
    drawn, deltas = told
    said = chunks(len(drawn), deltas, manner)
    for index, answer in enumerate(drawn):
        mine = [choice for chunk in said for choice in chunk["choices"] if choice["index"] == index]
        assert [choice["finish_reason"] for choice in mine] == [None] * (len(mine) - 1) + [answer.finish]
        first, *between, last = [choice["delta"] for choice in mine]
        assert (first["role"], first["refusal"]) == ("assistant", None)
        assert all("role" not in delta for delta in between)
        assert last == {}
        text = [delta["content"] for delta in between if "content" in delta]
        assert text == [piece for part in answer.of("text") for piece in part.texts if piece]
        assert first["content"] == (None if answer.of("tool_call") and not answer.of("text") else "")
        fragments = [call for delta in [first, *between] for call in delta.get("tool_calls", [])]
        assert not fragments or fragments == sorted(fragments, key=lambda call: call["index"])
        for number, call in enumerate(answer.of("tool_call")):
            opening, *rest = [fragment for fragment in fragments if fragment["index"] == number]
            kind, field = ("custom", "input") if call.part.name == CUSTOM else ("function", "arguments")
            assert opening["type"] == kind
            assert opening["id"] == (call.part.id or opening["id"])
            assert opening["id"].startswith("call_")
            assert opening[kind] == {"name": call.part.name, field: ""}
            assert all(set(fragment) == {"index", kind} for fragment in rest)
            assert "".join(fragment[kind][field] for fragment in rest) == call.text


@given(conversations(), manners)
def test_a_whole_answer_says_what_the_stream_says(told: tuple[list[Answer], list[Delta]], manner: Manner) -> None:
    drawn, deltas = told
    streamed = chunks(len(drawn), deltas, manner)
    answer = whole(len(drawn), deltas, manner)
    assert answer["object"] == "chat.completion"
    for choice in answer["choices"]:
        mine = [each for chunk in streamed for each in chunk["choices"] if each["index"] == choice["index"]]
        message, expected = choice["message"], drawn[choice["index"]]
        assert choice["finish_reason"] == mine[-1]["finish_reason"] == expected.finish
        calls = message.get("tool_calls", [])
        assert (message["content"] is None) == (bool(calls) and not expected.of("text"))
        assert message["content"] in (None, "".join(part.text for part in expected.of("text")))
        opened = [call for each in mine for call in each["delta"].get("tool_calls", []) if "id" in call]
        assert [(call["id"], call["type"]) for call in calls] == [(call["id"], call["type"]) for call in opened]
        said = [call.get("function", call.get("custom")) for call in calls]
        assert [each.get("arguments", each.get("input")) for each in said] == [
            part.text for part in expected.of("tool_call")
        ]


@given(conversations(logprobs=True), manners)
def test_log_probabilities_go_with_their_tokens(told: tuple[list[Answer], list[Delta]], manner: Manner) -> None:
    drawn, deltas = told
    streamed, answer = chunks(len(drawn), deltas, manner), whole(len(drawn), deltas, manner)
    for index, expected in enumerate(drawn):
        texts = [piece for part in expected.of("text") for piece in part.texts]
        mine = [choice for chunk in streamed for choice in chunk["choices"] if choice["index"] == index]
        shown = [entry for choice in mine if choice["logprobs"] for entry in choice["logprobs"]["content"]]
        assert shown == [logprob(text) for text in texts if text]
        logprobs = answer["choices"][index]["logprobs"]
        assert (logprobs["content"] if logprobs else []) == [logprob(text) for text in texts if text]


@given(conversations())
def test_the_older_form_tells_one_call(told: tuple[list[Answer], list[Delta]]) -> None:
    manner = Manner(functions=True)
    drawn = [Answer([*each.of("text"), *each.of("tool_call")[:1]], 0, each.finish) for each in told[0]]
    drawn = [each for each in drawn if each.said]
    deltas = [delta for index, each in enumerate(drawn) for delta in each.deltas(index, [2], False)]
    streamed = chunks(len(drawn), deltas, manner)
    for choice in whole(len(drawn), deltas, manner)["choices"]:
        expected = drawn[choice["index"]]
        mine = [each for chunk in streamed for each in chunk["choices"] if each["index"] == choice["index"]]
        reason = "function_call" if expected.finish == "tool_calls" else expected.finish
        assert choice["finish_reason"] == mine[-1]["finish_reason"] == reason
        fragments = [each["delta"]["function_call"] for each in mine if "function_call" in each["delta"]]
        calls = [{"name": part.part.name, "arguments": part.text} for part in expected.of("tool_call")]
        assert ([choice["message"]["function_call"]] if calls else []) == calls
        assert "".join(fragment["arguments"] for fragment in fragments) == "".join(part["arguments"] for part in calls)
        assert [fragment["name"] for fragment in fragments if "name" in fragment] == [part["name"] for part in calls]


def test_a_token_and_its_padding_are_together_as_long_as_others() -> None:
    encoder = Chunks(HEAD, 1, Manner())
    encoder.delta(Delta("job", 1, 0, 0, 1, b"x", part=Part()))
    sizes = {len(encoder.delta(Delta("job", 1, 0, 1, 1, b"x" * length))) for length in range(1, 16)}
    assert len(sizes) == 1


def test_whoever_encodes_an_answer_again_writes_the_same() -> None:
    deltas = [
        Delta("job", 1, 0, 0, 1, b"x", part=Part()),
        Delta("job", 2, 0, 1, 2, b"\n{}", finish="tool_calls", part=Part("tool_call", "look")),
    ]
    first, again = (b"".join(map(Chunks(HEAD, 1, Manner()).delta, deltas)) for _ in range(2))
    other = b"".join(map(Chunks(Head("chatcmpl-2", 1, "m", "x", "y"), 1, Manner()).delta, deltas))
    assert first == again != other


def test_usage_has_its_details() -> None:
    assert whole(1, [], Manner())["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 3,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 1,
            "rejected_prediction_tokens": 2,
        },
    }


def test_a_stream_that_fails_says_so_and_does_not_claim_to_be_done() -> None:
    [payload] = payloads(Chunks(HEAD, 1, Manner()).failure(Broken("The worker is gone.")))
    assert orjson.loads(payload) == {
        "error": {"message": "The worker is gone.", "type": "server_error", "param": None, "code": "server_error"}
    }
