"""What the generating surfaces of the OpenAI dialect say beside an answer: headers of every answer, and refusals."""

import asyncio

from starlette.responses import Response

from gateway.dialects import OPENAI, request_id
from service.errors import ServiceError

VERSION = "2020-10-01"  # of the API; it has not changed since


class OpenAISpeech:
    """`arrived` is the loop's time at which the request came."""

    def __init__(self, arrived: float) -> None:
        self._arrived = arrived

    def headers(self) -> list[tuple[bytes, bytes]]:
        taken = asyncio.get_running_loop().time() - self._arrived
        return [
            (b"x-request-id", request_id().encode()),
            (b"openai-version", VERSION.encode()),
            (b"openai-processing-ms", str(round(taken * 1000)).encode()),
        ]

    def refusal(self, error: ServiceError) -> Response:
        return OPENAI.refuse(error)
