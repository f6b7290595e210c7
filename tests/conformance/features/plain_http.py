"""Requests as no client library would send them, on a connection each."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_PATIENCE = 20.0  # s


@dataclass(frozen=True, slots=True)
class Answer:
    """Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[tuple[str, Any]]:
        """Name and data of each server-sent event; comments are left out. Data that is not JSON stays text."""
        assert self.body.endswith(b"\n\n"), self.body[-100:]
        found = []
        for block in self.body.decode().split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
            if fields:
                data = fields["data"]
                found.append((fields.get("event", ""), json.loads(data) if data.startswith("{") else data))
        return found


def send(url: str, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
    """Underscores in the names of headers stand for hyphens."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_PATIENCE)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def post(url: str, path: str, body: Any, **headers: str) -> Answer:
    """A body of JSON; bytes are sent as they are."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return send(
        url, "POST", path, content, **{"content_type": "application/json", "authorization": "Bearer k", **headers}
    )
