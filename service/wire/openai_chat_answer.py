"""Chat completions outwards: the whole answer, and the chunks of a stream. Sans-IO.

Shapes after the OpenAPI document of the OpenAI API and recorded traffic: every chunk of a stream has the same id and
`created`, and `service_tier`; a choice begins with its role, or with its role and its first call; a call's id, type and
name come once, before the fragments of its arguments; one finish chunk per choice; then one chunk with empty `choices`
for the usage if it was asked for; then [DONE]. Reasoning is counted and not shown.

`obfuscation` hides from who watches the line how long tokens are: tokens that come together share theirs, so that a
chunk costs no more than without it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from service.errors import ServiceError
from service.messages import Delta, Part, Usage
from service.wire import sse
from service.wire.frames import Frame
from service.wire.gathered import Answer, Said
from service.wire.ids import derived
from service.wire.openai_errors import envelope

_PAD = 16  # bytes; a token and its padding are together a multiple of that
_UNFINISHED = b',"logprobs":null,"finish_reason":null}'
_RECKONED = b'"},"logprobs":{"content":[%b],"refusal":null},"finish_reason":null}'


@dataclass(frozen=True, slots=True)
class Head:
    """What every object of one answer says about itself."""

    id: str
    created: int
    model: str
    service_tier: str
    system_fingerprint: str

    def fields(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "service_tier": self.service_tier,
            "system_fingerprint": self.system_fingerprint,
        }


@dataclass(frozen=True, slots=True)
class Manner:
    """How a request wants to be answered, beside what it wants to hear.

    `custom` names the tools that take text; `functions`: a call is told in the older form.
    """

    include_usage: bool = False
    obfuscate: bool = True
    custom: frozenset[str] = frozenset()
    functions: bool = False


def completion(head: Head, answers: list[Answer], usage: Usage, manner: Manner) -> bytes:
    """The whole answer."""
    choices = b",".join(_choice(head, index, answer, manner) for index, answer in enumerate(answers))
    opening = orjson.dumps(head.fields("chat.completion"))[:-1]
    return b'%b,"choices":[%b],"usage":%b}' % (opening, choices, usage_json(usage))


def usage_json(usage: Usage) -> bytes:
    """`completion_tokens` counts everything generated, what `completion_tokens_details` names included."""
    return orjson.dumps(
        {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "total_tokens": usage.prompt + usage.completion,
            "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0, **_written(usage)},
            "completion_tokens_details": {
                "reasoning_tokens": usage.reasoning,
                "audio_tokens": 0,
                "accepted_prediction_tokens": usage.accepted,
                "rejected_prediction_tokens": usage.rejected,
            },
        }
    )


def _written(usage: Usage) -> dict[str, int]:
    """Only of models that charge for it."""
    return {"cache_write_tokens": usage.written} if usage.written else {}


def _choice(head: Head, index: int, answer: Answer, manner: Manner) -> bytes:
    texts = [said for said in answer.said if said.part.kind == "text"]
    calls = [said for said in answer.said if said.part.kind == "tool_call"]
    content = b'"%b"' % answer.text() if texts or not calls else b"null"
    logprobs = b",".join(answer.logprobs())
    return b'{"index":%d,"message":{"role":"assistant","content":%b,"refusal":null,"annotations":[]%b},%b%b}' % (
        index,
        content,
        _calls(head, index, calls, manner),
        b'"logprobs":{"content":[%b],"refusal":null},' % logprobs if logprobs else b'"logprobs":null,',
        b'"finish_reason":%b' % _finish(answer.finish, manner),
    )


def _calls(head: Head, choice: int, calls: list[Said], manner: Manner) -> bytes:
    if not calls:
        return b""
    if manner.functions:
        name = orjson.dumps(calls[0].part.name)
        return b',"function_call":{"name":%b,"arguments":"%b"}' % (name, bytes(calls[0].text))
    told = (
        b'{%b"%b"}}' % (_call_opening(head, choice, number, said.part, manner), bytes(said.text))
        for number, said in enumerate(calls)
    )
    return b',"tool_calls":[%b]' % b",".join(told)


def _call_opening(head: Head, choice: int, number: int, part: Part, manner: Manner) -> bytes:
    """A call's id, type and name, up to where its arguments begin."""
    name = part.id or derived("call_", 24, head.id, choice, number)
    kind, said = _kind(part, manner)
    words = (orjson.dumps(name), kind, kind, orjson.dumps(part.name), said)
    return b'"id":%b,"type":"%b","%b":{"name":%b,"%b":' % words


def _kind(part: Part, manner: Manner) -> tuple[bytes, bytes]:
    """Of a call, and what it calls its arguments."""
    return (b"custom", b"input") if part.name in manner.custom else (b"function", b"arguments")


def _finish(reason: str | None, manner: Manner) -> bytes:
    return orjson.dumps("function_call" if manner.functions and reason == "tool_calls" else reason)


class Chunks:
    """Encodes one stream. All that does not change between tokens is rendered once for each part of an answer."""

    opens_early = False

    def __init__(self, head: Head, choices: int, manner: Manner) -> None:
        self._head = head
        self._manner = manner
        self._start = b"data: " + orjson.dumps(head.fields("chat.completion.chunk"))[:-1] + b',"choices":['
        usage = b',"usage":null' if manner.include_usage else b""
        self._tails = [b"]%b%b}\n\n" % (usage, pad) for pad in _paddings(head, manner)]
        self._frames: list[Frame | None] = [None] * choices
        self._opened = [False] * choices
        self._calls = [0] * choices

    def opening(self, _: Usage) -> bytes:
        """Nothing: each choice says who speaks when it begins to."""
        return b""

    def delta(self, delta: Delta) -> bytes:
        """One event for each token with text; before the first of a part what it is, and behind the last its end."""
        if delta.part is not None or delta.finish is not None or delta.logprobs:
            return self._turn(delta)
        frame = self._frames[delta.choice]
        return frame.around(delta.text, delta.count) if frame is not None else b""

    def _turn(self, delta: Delta) -> bytes:
        """Where a part begins or ends, or tokens come with what they were likely to be."""
        events = b"" if delta.part is None else self._begin(delta.choice, delta.part)
        frame = self._frames[delta.choice]
        if frame is not None:
            reckoned = delta.text and delta.logprobs and self._calls[delta.choice] == 0
            text = delta.text
            events += frame.each(text, delta.logprobs, _RECKONED) if reckoned else frame.around(text, delta.count)
        return events if delta.finish is None else events + self._end(delta.choice, delta.finish)

    def keepalive(self) -> bytes:
        return sse.KEEPALIVE

    def closing(self, usage: Usage) -> bytes:
        """What follows when all choices have finished."""
        if not self._manner.include_usage:
            return sse.DONE
        pad = next(_paddings(self._head, self._manner))
        return self._start + b'],"usage":%b%b}\n\n' % (usage_json(usage), pad) + sse.DONE

    def failure(self, error: ServiceError) -> bytes:
        """A stream that cannot be completed says so; no [DONE] follows."""
        return sse.data(envelope(error))

    def _begin(self, choice: int, part: Part) -> bytes:
        if part.kind == "reasoning":
            self._frames[choice] = None
            return b""
        if part.kind == "text":
            self._frames[choice] = self._frame(choice, b'{"content":"', b'"}')
            return self._role(choice)
        return self._begin_call(choice, part)

    def _begin_call(self, choice: int, part: Part) -> bytes:
        number = self._calls[choice]
        self._calls[choice] += 1
        if self._manner.functions:
            field, after = b'"function_call":{"arguments":"', b'"}}'
            call = b'"function_call":{"name":%b,"arguments":""}' % orjson.dumps(part.name)
        else:
            kind, said = _kind(part, self._manner)
            field, after = b'"tool_calls":[{"index":%d,"%b":{"%b":"' % (number, kind, said), b'"}}]}'
            opening = _call_opening(self._head, choice, number, part, self._manner)
            call = b'"tool_calls":[{"index":%d,%b""}}]' % (number, opening)
        self._frames[choice] = self._frame(choice, b"{" + field, after)
        if self._opened[choice]:
            return self._chunk(choice, b"{%b}" % call)
        self._opened[choice] = True
        return self._chunk(choice, b'{"role":"assistant","content":null,%b,"refusal":null}' % call)

    def _role(self, choice: int) -> bytes:
        if self._opened[choice]:
            return b""
        self._opened[choice] = True
        return self._chunk(choice, b'{"role":"assistant","content":"","refusal":null}')

    def _end(self, choice: int, reason: str) -> bytes:
        finish = b',"logprobs":null,"finish_reason":%b}' % _finish(reason, self._manner)
        return self._role(choice) + self._chunk(choice, b"{}", finish)

    def _frame(self, choice: int, opening: bytes, closing: bytes) -> Frame:
        before = b'%b{"index":%d,"delta":%b' % (self._start, choice, opening)
        return Frame(before, closing + _UNFINISHED, self._tails)

    def _chunk(self, choice: int, delta: bytes, behind: bytes = _UNFINISHED) -> bytes:
        tail = self._tails[len(delta) % _PAD]
        return b'%b{"index":%d,"delta":%b%b%b' % (self._start, choice, delta, behind, tail)


def _paddings(head: Head, manner: Manner) -> Iterator[bytes]:
    """Of tokens of 0, 1, ... bytes: letters that look random, and are the same whenever the answer is encoded again."""
    noise = derived("", 3 * _PAD, head.id).encode()
    for length in range(_PAD):
        pad = noise[2 * length : 2 * length + _PAD - length]
        yield b',"obfuscation":"%b"' % pad if manner.obfuscate else b""
