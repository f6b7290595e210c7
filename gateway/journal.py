"""What was asked lately and what came of it, for whoever tests a client: a note for each request, while there is room.

Bounded in number and in bytes; the oldest goes first. Keys and cookies are left out before anything is kept. Knows no
dialect: requests are noted as the bytes that came, answers as events. All lists of choices and calls are in order.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson
from starlette.requests import HTTPConnection

from gateway.admission import Ticket
from gateway.dialects import spoken
from gateway.scripted import Direction, surface
from service.errors import ServiceError
from service.messages import Delta, Event, Usage
from service.metrics import Outcome
from service.wire.gathered import Answer, Gathered

_BYTES_MAX = 64 * 1024 * 1024  # of all notes together
_SECRET = ("auth", "key", "token", "secret", "cookie", "password", "credential")  # in names of headers


@dataclass(slots=True, kw_only=True)
class Note:
    """One request. `outcome` is empty until it has been settled; times are Unix time and seconds."""

    journal: "Journal"
    number: int
    time: float
    surface: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    ticket: Ticket | None = None
    direction: Direction = field(default_factory=Direction)
    mistake: str = ""
    status: int | None = None  # of the answer; None: it has none, or not yet
    error: str = ""
    outcome: Outcome | str = ""
    duration: float = 0.0
    usage: Usage | None = None
    gathered: Gathered | None = None

    def admitted(self, ticket: Ticket, direction: Direction) -> None:
        self.ticket, self.direction = ticket, direction
        self.gathered = Gathered(ticket.job.choices)

    def hear(self, events: Iterable[Event]) -> None:
        """Events on their way to the client."""
        for event in events:
            if isinstance(event, Delta) and self.gathered is not None:
                self.gathered.add(event)
                if event.part is not None:
                    self.mistake = self.mistake or event.part.mistake

    def settled(self, outcome: str, status: int | None, error: ServiceError | None = None) -> None:
        self.outcome, self.status = outcome, status
        self.error = error.message if error is not None else ""
        self.duration = time.time() - self.time
        self.journal.weigh(self)

    @property
    def size(self) -> int:
        """Bytes, about."""
        answers = self.gathered.answers if self.gathered is not None else []
        return 1000 + len(self.body) + sum(len(said.text) for answer in answers for said in answer.said)

    def show(self) -> dict[str, Any]:
        """For JSON. `text`, `reasoning`, `calls` and `finish` are those of the first choice."""
        choices = [_shown(answer) for answer in self.gathered.answers] if self.gathered is not None else []
        job, offer = (self.ticket.job, self.ticket.offer) if self.ticket is not None else (None, None)
        fault = self.direction.fault
        return {
            "number": self.number,
            "time": self.time,
            "surface": self.surface,
            "path": self.path,
            "headers": self.headers,
            "body": _read(self.body),
            "id": job.id if job else "",
            "model": job.model if job else "",
            "tier_requested": self.ticket.requested if self.ticket is not None else "",
            "tier_served": offer.tier if offer else "",
            "rule": self.direction.rule,
            "fault": fault.words if fault else "",
            "mistake": self.mistake,
            "status": self.status,
            "error": self.error,
            "outcome": self.outcome,
            "duration": round(self.duration, 6),
            "usage": {name: getattr(self.usage, name) for name in Usage.__struct_fields__} if self.usage else None,
            **(choices[0] if choices else _shown(Answer())),
            "choices": choices,
        }


class Journal:
    """The last `most` requests of one gateway. Invariant: `_bytes` is the sum of `_sizes`, which has those kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._notes: dict[int, Note] = {}
        self._sizes: dict[int, int] = {}
        self._bytes = 0
        self._number = 0

    @contextmanager
    def noting(self, connection: HTTPConnection, body: bytes) -> Iterator[Note]:
        """A note of what comes in, which also knows what it is refused with. An exchange settles it otherwise."""
        self._number += 1
        note = Note(
            journal=self,
            number=self._number,
            time=time.time(),
            surface=surface(connection),
            path=connection.scope["path"],
            headers=_safe(connection.headers),
            body=body,
        )
        self._notes[note.number] = note
        self._sizes[note.number] = 0
        self.weigh(note)
        try:
            yield note
        except ServiceError as error:
            note.settled("rejected", spoken(connection.scope).status(error), error)
            raise
        except BaseException:
            note.settled("failed", None)
            raise

    def weigh(self, note: Note) -> None:
        """The note has grown; what there is no room for any more goes."""
        if note.number not in self._sizes:
            return
        self._bytes += note.size - self._sizes[note.number]
        self._sizes[note.number] = note.size
        while len(self._notes) > self._most or (self._bytes > _BYTES_MAX and len(self._notes) > 1):
            oldest = next(iter(self._notes))
            del self._notes[oldest]
            self._bytes -= self._sizes.pop(oldest)

    def since(self, number: int, most: int) -> list[dict[str, Any]]:
        """Up to `most` notes of those that came after the one of that number, in order."""
        later = (note for note in list(self._notes.values()) if note.number > number)
        return [note.show() for note in islice(later, most)]

    def clear(self) -> None:
        """Numbers go on."""
        self._notes.clear()
        self._sizes.clear()
        self._bytes = 0


def _safe(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: "(redacted)" if any(word in name for word in _SECRET) else text for name, text in headers.items()}


def _shown(answer: Answer) -> dict[str, Any]:
    def text(kind: str) -> str:
        return "".join(_plain(said.text) for said in answer.said if said.part.kind == kind)

    calls = [said for said in answer.said if said.part.kind == "tool_call"]
    return {
        "finish": answer.finish,
        "text": text("text"),
        "reasoning": text("reasoning"),
        "calls": [{"name": said.part.name, "arguments": _read(_plain(said.text).encode())} for said in calls],
    }


def _plain(escaped: bytes | bytearray) -> str:
    """Half of a pair of surrogates, where an answer was cut off, is no text."""
    try:
        text: str = orjson.loads(b'"' + escaped + b'"')
    except orjson.JSONDecodeError:
        return escaped.decode(errors="replace")
    return text


def _read(body: bytes) -> Any:
    """JSON as what it says, anything else as text."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="replace")
