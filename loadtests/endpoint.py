"""One streamed chat completion of any OpenAI-compatible endpoint, measured as its client sees it.

loadtests.client is for a million tokens a second from this machine's own gateway; here endpoints are far away, behind
TLS and proxies, and write their JSON as they like, but one stream's events can be decoded as they come.

- TTFT is from when the request is sent, the connection being made, to the first text: content, or the reasoning of a
  model that shows it.
- TPOT = (last text - first text) / (tokens - 1); `rate` is its inverse.
- Tokens are those of `usage`, less reasoning that was not shown; without usage they are counted with o200k_base, which
  is an estimate.
- A key goes into one header, and out of every text that is passed on.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import httpx
import orjson

from loadtests.client import clock
from service import tokenizer
from service.errors import CalibrationError

CONNECT = 10.0  # s
SURPLUS = 2  # times as many texts as tokens were asked for: the endpoint does not heed the limit
EXCERPT = 300  # characters of what an endpoint says about an error
EVENT_MAX = 1 << 20  # bytes of one event, or of the body of an error
READS = 3  # that bring text; in fewer, a rate cannot be seen


class Refused(Exception):
    """The endpoint has no capacity at the moment; `retry_after` in seconds, if it says so."""

    def __init__(self, why: str, retry_after: float | None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class Failed(Exception):
    """The request came to nothing, or its answer is not one that can be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Times of loadtests.client.clock, in seconds; `tier` is the service_tier that the endpoint reports."""

    sent: float
    first: float
    last: float
    prompt: int  # tokens
    cached: int  # those of them that were found in a cache
    tokens: int
    hidden: int  # tokens of reasoning that was not shown
    estimated: bool
    tier: str | None

    @property
    def ttft(self) -> float:
        return self.first - self.sent

    @property
    def rate(self) -> float:
        """tok/s after the first."""
        return (self.tokens - 1) / (self.last - self.first)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What endpoints differ in. `accepts` gives up, one at a time, what an error message complains about."""

    limit: str = "max_tokens"
    usage: bool = True

    def body(self, model: str, tier: str | None, prompt: str, tokens: int) -> dict[str, object]:
        body: dict[str, object] = {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            self.limit: tokens,
            "stream": True,
        }
        if self.usage:
            body["stream_options"] = {"include_usage": True}
        if tier is not None:
            body["service_tier"] = tier
        return body

    def accepts(self, complaint: str) -> Self | None:
        """The dialect to try next; None if the complaint is about something else."""
        if self.limit == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit="max_completion_tokens")
        if self.usage and ("stream_options" in complaint or "include_usage" in complaint):
            return replace(self, usage=False)
        return None


class Endpoint:
    """Use it as a context manager. `timeout` (s) is for a request from its first byte to its last."""

    def __init__(self, base_url: str, model: str, tier: str | None, key: str | None, timeout: float) -> None:
        """Raises CalibrationError: that is no URL, or no key."""
        self._url = _completions(base_url)
        self._model, self._tier = model, tier
        self._key = key
        self._timeout = timeout
        self._dialect = Dialect()
        headers = {"accept": "text/event-stream", "accept-encoding": "identity"}
        if key:
            if not key.isascii() or not key.isprintable():
                raise CalibrationError("the API key has characters that no HTTP header can hold")
            headers["authorization"] = f"Bearer {key}"
        self._http = httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(timeout, connect=min(CONNECT, timeout)))

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._http.__aexit__(*error)

    async def ask(self, prompt: str, tokens: int) -> Answer:
        """Raises Refused, Failed; and CalibrationError where asking again would not help."""
        while True:
            dialect = self._dialect
            body = dialect.body(self._model, self._tier, prompt, tokens)
            try:
                async with asyncio.timeout(self._timeout):
                    return await self._stream(body, prompt, tokens)
            except TimeoutError:
                raise Failed(f"no whole answer in {self._timeout:g} s") from None
            except (Failed, httpx.HTTPError) as error:
                raise Failed(self._clean(str(error) or type(error).__name__)) from None
            except _Complaint as error:
                if dialect is self._dialect:  # another request may have learned meanwhile
                    accepted = dialect.accepts(str(error))
                    if accepted is None:
                        raise CalibrationError(str(error)) from None
                    self._dialect = accepted

    async def _stream(self, body: dict[str, object], prompt: str, tokens: int) -> Answer:
        sent = clock()

        async def trace(event: str, _: Mapping[str, object]) -> None:
            nonlocal sent
            if event.endswith("send_request_headers.started"):
                sent = clock()

        content = orjson.dumps(body)
        request = self._http.build_request(
            "POST",
            self._url,
            content=content,
            headers={"content-type": "application/json"},
            extensions={"trace": trace},
        )
        response = await self._http.send(request, stream=True)
        try:
            if response.status_code != 200:
                raise self._fault(response, await _body(response))
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise CalibrationError("the endpoint answers, but does not stream: TTFT cannot be measured")
            heard = _Heard(SURPLUS * tokens)
            async for now, event in _events(response):
                heard.hear(event, now)
        finally:
            await response.aclose()
        return heard.answer(sent, prompt)

    def _fault(self, response: httpx.Response, text: str) -> Exception:
        """What an answer that is no stream means."""
        status, said = response.status_code, self._clean(_message(text))
        why = f"status {status}: {said}"
        if status in (429, 503, 529):
            return Refused(why, _seconds(response.headers.get("retry-after")))
        if status == 404:
            return CalibrationError(f"{why} (a base URL usually ends in /v1)")
        if status in (400, 422):
            return _Complaint(why)
        if 300 <= status < 500 and status not in (408, 409, 425):
            return CalibrationError(why)
        return Failed(why)

    def _clean(self, text: str) -> str:
        """Without the key and the host, since it may be written down."""
        text = text.replace(self._key, "(the key)") if self._key else text
        return text.replace(httpx.URL(self._url).host, "(the host)")


class _Complaint(Exception):
    """The endpoint does not like the body."""


class _Heard:
    """What the events of a stream have said so far."""

    def __init__(self, texts_max: int) -> None:
        self.first: float | None = None
        self.last = 0.0
        self.reads = 0
        self.texts: list[str] = []
        self.reasoned = False
        self.ended = False
        self.usage: Mapping[str, Any] = {}
        self.tier: str | None = None
        self._texts_max = texts_max

    def hear(self, event: bytes, now: float) -> None:
        """Raises Failed."""
        if event == b"[DONE]":
            self.ended = True
            return
        try:
            chunk = orjson.loads(event)
            if chunk.get("error"):
                raise Failed(f"the stream broke off: {str(chunk['error'])[:EXCERPT]}")
            self.usage = chunk.get("usage") or self.usage
            self.tier = chunk.get("service_tier") or self.tier
            for choice in chunk.get("choices") or ():
                delta = choice.get("delta") or {}
                reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
                self.reasoned |= bool(reasoning)
                self._gain(reasoning + (delta.get("content") or ""), now)
                self.ended |= choice.get("finish_reason") is not None
        except (orjson.JSONDecodeError, AttributeError, TypeError) as error:
            raise Failed(f"an event is not that of a chat completion: {event[:80]!r}") from error

    def _gain(self, text: str, now: float) -> None:
        if not text:
            return
        if self.first is None:
            self.first = now
        self.reads += now > self.last
        self.last = now
        self.texts.append(text)
        if len(self.texts) > self._texts_max:
            raise CalibrationError("the endpoint does not heed the limit on tokens; it was left")

    def answer(self, sent: float, prompt: str) -> Answer:
        """Raises Failed."""
        if not self.ended:
            raise Failed("the stream ended in the middle")
        if self.first is None:
            raise Failed("the answer has no text")
        completion = self.usage.get("completion_tokens")
        tokens = completion if completion is not None else tokenizer.count("".join(self.texts))
        details = self.usage.get("completion_tokens_details") or {}
        hidden = 0 if self.reasoned else details.get("reasoning_tokens") or 0
        given = self.usage.get("prompt_tokens")
        answer = Answer(
            sent=sent,
            first=self.first,
            last=self.last,
            prompt=given if given is not None else tokenizer.count(prompt),
            cached=(self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
            tokens=tokens - hidden,
            hidden=hidden,
            estimated=completion is None,
            tier=self.tier,
        )
        if answer.tokens < 2:
            raise Failed(f"an answer of {answer.tokens} tokens has no rate")
        if self.reads < min(READS, answer.tokens):
            raise Failed(f"{answer.tokens} tokens came in {self.reads} pieces: something on the way holds them back")
        return answer


async def _events(response: httpx.Response) -> AsyncIterator[tuple[float, bytes]]:
    """The data of server-sent events, of which each is one line, and when it was read. Raises Failed."""
    rest = b""
    async for data in response.aiter_bytes():
        now = clock()
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > EVENT_MAX:
            raise Failed("an event has no end")
        for line in lines:
            if line.startswith(b"data:") and (payload := line[5:].strip()):
                yield now, payload


async def _body(response: httpx.Response) -> str:
    """As much as is needed of a body that is no stream."""
    body = b""
    async for data in response.aiter_bytes():
        body += data
        if len(body) > EVENT_MAX:
            break
    return body.decode(errors="replace")


def _completions(base_url: str) -> str:
    """Where chat completions are asked for. Raises CalibrationError."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise CalibrationError(f"{base_url!r} is no URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise CalibrationError(f"{base_url!r} is no URL of an API; one looks like https://api.example.com/v1")
    path = url.path.rstrip("/") or "/v1"
    return str(url.copy_with(path=path.removesuffix("/chat/completions") + "/chat/completions"))


def _message(text: str) -> str:
    """What an error body says, OpenAI's or another."""
    try:
        error = orjson.loads(text)["error"]
        text = error["message"] if isinstance(error, dict) else str(error)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        pass
    return " ".join(text.split())[:EXCERPT] or "no more is said"


def _seconds(retry_after: str | None) -> float | None:
    """Of a Retry-After header; dates are not read."""
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        return None
