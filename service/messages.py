"""What travels through Redis: a Job towards a worker, events back towards the gateway. Their grammar and encoding.

The grammar of one job's events, as a gateway sees them after fencing:

    Started  (Waiting | Delta | Delta of another choice)*  (Finished | Failed)

A choice's answer is made of parts, one after another: reasoning, then text, then calls of tools, each of them if there
is any, each of at least one token. A Delta holds tokens of one part; the first of a part says which.

- `epoch` counts the claims of a job. A frame of an older epoch than one already seen is stale and is dropped.
- `offset` counts tokens of one choice from its beginning, in every epoch. A worker that takes over a dead one's job
  starts again; the gateway drops what it has already relayed and notices a gap, so no token is lost or doubled.
- Delta.text is the wire-ready form: the JSON-escaped text of each token, without quotes, joined by newlines. A newline
  cannot occur inside JSON-escaped text, so an encoder makes n events of n tokens with one bytes.replace. Only the
  last tokens of a choice may be without any piece (those of a stop sequence): there are then fewer pieces than `count`.
  A piece may be empty: a token that says what is told otherwise, as the name of a tool is.
- The Delta that ends a choice carries its `finish`; Finished follows when all choices have ended, with the usage.
"""

from enum import StrEnum
from typing import Literal

import msgspec

BANDS = 3  # of priority in a queue
LONG_KEPT = 3600  # seconds; a prompt that is kept in a cache for as long is dearer

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


class Turn(msgspec.Struct, array_like=True, frozen=True):
    """One message of a conversation, as plain text."""

    role: str
    text: str


TAKES_TEXT = b'{"type":"string"}'


class Tool(msgspec.Struct, array_like=True, frozen=True):
    """What the model may call. `parameters` is a JSON Schema as JSON; empty: any object.

    With TAKES_TEXT for it, the arguments of a call are text as it is.
    """

    name: str
    parameters: bytes = b""
    description: str = ""
    strict: bool = False  # calls are valid under the schema, whatever mistakes a tier makes


class Call(msgspec.Struct, array_like=True, frozen=True):
    """A call of a tool. `arguments` are JSON text, or what a model that errs says instead."""

    name: str
    arguments: str
    id: str = ""


class Scripted(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """An answer that somebody has written beforehand. Limits and stop sequences hold for it, too.

    `mistake`: the kind that is made; empty if none may be; None leaves it to the tier.
    """

    text: str | None = None
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    finish: FinishReason | None = None
    mistake: str | None = None


class Wish(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """How the answer is to look.

    - `tools` are those that may be called in this answer: one that is named is alone, and `tool_choice` "required".
    - `schema`: a JSON Schema (as JSON) that the text satisfies; empty: text of any kind. `strict`: whatever mistakes
      a tier makes.
    - `reasoning`: tokens of reasoning to expect before the answer, the median; 0: none.
    - `logprobs`: how many alternatives to report of each token; None: no log probabilities at all.
    - `capped`: `max_tokens` bounds an answer of natural length; otherwise it is the length.
    - `length`: median (tokens) and sigma of the lognormal natural length.
    - `mistakes`: the probability of each kind of mistake that the tier makes.
    """

    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    parallel: bool = True
    schema: bytes = b""
    strict: bool = False
    reasoning: int = 0
    prediction: str = ""
    logprobs: int | None = None
    capped: bool = False
    length: tuple[float, float] = (200.0, 0.7)
    mistakes: tuple[tuple[str, float], ...] = ()
    scripted: Scripted | None = None


class Pace(msgspec.Struct, array_like=True, frozen=True):
    """Tokens per second, and how many may go out at once after a silence."""

    rate: float
    burst: float


class Job(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """One admitted request. Everything a backend needs to serve it, and nothing of a dialect.

    With `prompts`, the request is a list of prompts: each turn of the conversation is one of them, `prompts` has its
    tokens, and the choices are shared out among them, in order and equally. `prompt_tokens` is then the sum.

    `pace`: how fast each of its choices may go out, whatever generates it; `intake`: how fast the prompts of all jobs
    of its model and tier may go in, whatever computes them.

    Of its prompt, so many tokens are to be kept in a cache for so many seconds, longest first: `keep`. Where that is
    `bought`, what is written is charged.

    `band` 0 is served first, BANDS - 1 last. Within a band, fair queueing charges the tenant `cost` / `weight`, in
    expected tokens.
    """

    id: str
    gateway: str
    pool: str
    model: str
    tier: str
    tenant: str = ""
    band: int = 1
    cost: float = 1.0
    weight: float = 1.0
    conversation: tuple[Turn, ...] = ()
    prompt_tokens: int = 1
    max_tokens: int | None = None
    min_tokens: int = 0
    context_left: int = 1  # tokens the model can still generate: what the window holds after the prompt, or its limit
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    seed: int = 0
    choices: int = 1
    blocks: bytes = b""  # of the prompt, as service.prefixes packs them; none where its pool keeps no prompts
    prompts: tuple[int, ...] = ()
    wish: Wish = Wish()
    keep: tuple[tuple[int, int], ...] = ()
    pace: Pace | None = None
    bought: bool = False
    intake: Pace | None = None

    def written(self, cached: int) -> tuple[int, int]:
        """Tokens bought to be in a cache where `cached` were found, and how many of them for LONG_KEPT."""
        if not self.bought:
            return 0, 0
        ends = [end for end, _ in self.keep]
        long = [end for end, seconds in self.keep if seconds >= LONG_KEPT]
        return max(0, max(ends, default=0) - cached), max(0, max(long, default=0) - cached)

    def sent(self, tokens: int) -> "Usage":
        """What it has used, as far as is known of a job that was not finished, and of which so much has gone out."""
        written, written_long = self.written(0)
        return Usage(prompt=self.prompt_tokens, completion=tokens, written=written, written_long=written_long)

    def prompt(self, choice: int) -> tuple[tuple[Turn, ...], int]:
        """What a choice answers, and how many tokens that has."""
        if not self.prompts:
            return self.conversation, self.prompt_tokens
        number = choice * len(self.prompts) // self.choices
        return self.conversation[number : number + 1], self.prompts[number]

    def without_conversation(self) -> "Job":
        """For whoever only follows the job: conversation and tools may be megabytes."""
        return msgspec.structs.replace(self, conversation=(), wish=Wish())


class Usage(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """What a job consumed, in tokens. `completion` counts every generated token of every choice.

    So it includes reasoning, and the tokens of a predicted output that were `rejected`. Of the prompt, `written` tokens
    went into a cache, `written_long` of them for longer.
    """

    prompt: int
    cached: int = 0
    completion: int = 0
    reasoning: int = 0
    accepted: int = 0
    rejected: int = 0
    written: int = 0
    written_long: int = 0


class Started(msgspec.Struct, array_like=True, frozen=True, tag="s"):
    """A worker has taken the job up. `queued` is the time it waited for that, in seconds."""

    job: str
    epoch: int
    queued: float


class Waiting(msgspec.Struct, array_like=True, frozen=True, tag="w"):
    """Nothing has come of the job for a while, and all is well: it waits for its turn in the batch, or is paused."""

    job: str
    epoch: int


class Part(msgspec.Struct, array_like=True, frozen=True):
    """What the tokens that follow belong to. `name` is a tool's; a call without an `id` of its own gets one later.

    With the first part of a choice comes what is known by then: how many tokens of the prompt were `cached`, and which
    `mistake` the answer contains.
    """

    kind: Literal["text", "reasoning", "tool_call"] = "text"
    name: str = ""
    id: str = ""
    cached: int = 0
    mistake: str = ""


class Delta(msgspec.Struct, array_like=True, frozen=True, tag="d"):
    """`count` further tokens of a choice are out, from `offset` on.

    `logprobs`: a JSON object {token, logprob, bytes, top_logprobs} per piece that is not empty, joined by newlines.
    `stopped`: the stop sequence that ended the choice.
    """

    job: str
    epoch: int
    choice: int
    offset: int
    count: int
    text: bytes
    finish: FinishReason | None = None
    part: Part | None = None
    logprobs: bytes = b""
    stopped: str | None = None

    def split(self, tokens: int) -> "tuple[Delta, Delta]":
        """Its first `tokens` tokens, which do not end the choice, and what is left: that its part begins is known."""
        pieces = self.text.split(b"\n")
        told = sum(map(bool, pieces[:tokens]))
        logprobs = self.logprobs.split(b"\n")
        first = msgspec.structs.replace(
            self,
            count=tokens,
            text=b"\n".join(pieces[:tokens]),
            finish=None,
            logprobs=b"\n".join(logprobs[:told]),
            stopped=None,
        )
        rest = msgspec.structs.replace(
            self,
            offset=self.offset + tokens,
            count=self.count - tokens,
            text=b"\n".join(pieces[tokens:]),
            part=self.part if tokens == 0 else None,
            logprobs=b"\n".join(logprobs[told:]),
        )
        return first, rest


class Finished(msgspec.Struct, array_like=True, frozen=True, tag="f"):
    """Every choice has ended, or the job was cancelled after what `usage` says."""

    job: str
    epoch: int
    usage: Usage
    cancelled: bool = False


class Failure(StrEnum):
    """Why a job could not be completed. A closed set: it becomes a metric label and a reason header."""

    QUEUE_DEADLINE = "queue_deadline"
    ATTEMPTS = "attempts_exhausted"
    WORKER_DRAINED = "worker_drained"
    BACKEND = "backend_error"
    UNSATISFIABLE = "unsatisfiable"


class Failed(msgspec.Struct, array_like=True, frozen=True, tag="x"):
    """The job ends without a complete answer."""

    job: str
    epoch: int
    why: Failure
    message: str


Event = Started | Waiting | Delta | Finished | Failed

_job_encoder = msgspec.msgpack.Encoder()
_job_decoder = msgspec.msgpack.Decoder(Job)
_usage_decoder = msgspec.msgpack.Decoder(Usage)
_events_decoder = msgspec.msgpack.Decoder(list[Event])


def encode_job(job: Job) -> bytes:
    return _job_encoder.encode(job)


def decode_job(data: bytes) -> Job:
    """Raises msgspec.DecodeError: the entry was not written by this version."""
    return _job_decoder.decode(data)


def encode_usage(usage: Usage) -> bytes:
    return _job_encoder.encode(usage)


def decode_usage(data: bytes) -> Usage:
    """Raises msgspec.DecodeError: it was not written by this version."""
    return _usage_decoder.decode(data)


def encode_events(events: list[Event]) -> bytes:
    """One flush: any number of events of any number of jobs."""
    return _job_encoder.encode(events)


def decode_events(data: bytes) -> list[Event]:
    """Raises msgspec.DecodeError: the entry was not written by this version."""
    return _events_decoder.decode(data)
