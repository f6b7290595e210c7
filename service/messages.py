"""What travels through Redis: a Job towards a worker, events back towards the gateway. Their grammar and encoding.

The grammar of one job's events, as a gateway sees them after fencing:

    Started  (Waiting | Delta | Delta of another choice)*  (Finished | Failed)

- `epoch` counts the claims of a job. A frame of an older epoch than one already seen is stale and is dropped.
- `offset` counts tokens of one choice from its beginning, in every epoch. A worker that takes over a dead one's job
  starts again; the gateway drops what it has already relayed and notices a gap, so no token is lost or doubled.
- Delta.text is the wire-ready form: the JSON-escaped text of each token, without quotes, joined by newlines. A newline
  cannot occur inside JSON-escaped text, so an encoder makes n events of n tokens with one bytes.replace. Only the
  last tokens of a choice may be without text (those of a stop sequence): the text then has fewer pieces than `count`.
- The Delta that ends a choice carries its `finish`; Finished follows when all choices have ended, with the usage.
"""

from enum import StrEnum
from typing import Literal

import msgspec

BANDS = 3  # of priority in a queue

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


class Turn(msgspec.Struct, array_like=True, frozen=True):
    """One message of a conversation, as plain text."""

    role: str
    text: str


class Job(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """One admitted request. Everything a backend needs to serve it, and nothing of a dialect.

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

    def without_conversation(self) -> "Job":
        """For whoever only follows the job: the conversation may be megabytes."""
        return msgspec.structs.replace(self, conversation=())


class Usage(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """What a job consumed, in tokens. `completion` counts every generated token of every choice."""

    prompt: int
    cached: int = 0
    completion: int = 0
    reasoning: int = 0


class Started(msgspec.Struct, array_like=True, frozen=True, tag="s"):
    """A worker has taken the job up. `queued` is the time it waited for that, in seconds."""

    job: str
    epoch: int
    queued: float


class Waiting(msgspec.Struct, array_like=True, frozen=True, tag="w"):
    """Nothing has come of the job for a while, and all is well: it waits for its turn in the batch, or is paused."""

    job: str
    epoch: int


class Delta(msgspec.Struct, array_like=True, frozen=True, tag="d"):
    """`count` further tokens of a choice are out, from `offset` on."""

    job: str
    epoch: int
    choice: int
    offset: int
    count: int
    text: bytes
    finish: FinishReason | None = None


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


class Failed(msgspec.Struct, array_like=True, frozen=True, tag="x"):
    """The job ends without a complete answer."""

    job: str
    epoch: int
    why: Failure
    message: str


Event = Started | Waiting | Delta | Finished | Failed

_job_encoder = msgspec.msgpack.Encoder()
_job_decoder = msgspec.msgpack.Decoder(Job)
_events_decoder = msgspec.msgpack.Decoder(list[Event])


def encode_job(job: Job) -> bytes:
    return _job_encoder.encode(job)


def decode_job(data: bytes) -> Job:
    """Raises msgspec.DecodeError: the entry was not written by this version."""
    return _job_decoder.decode(data)


def encode_events(events: list[Event]) -> bytes:
    """One flush: any number of events of any number of jobs."""
    return _job_encoder.encode(events)


def decode_events(data: bytes) -> list[Event]:
    """Raises msgspec.DecodeError: the entry was not written by this version."""
    return _events_decoder.decode(data)
