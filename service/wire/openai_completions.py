"""Legacy completions: the request body inwards, the whole answer and the events of a stream outwards. Sans-IO.

Shapes after the OpenAPI document of the OpenAI API. There is no `service_tier`, and no role: a choice is text, behind
the prompt itself if that is to be echoed. Several prompts have their choices one after another, `n` each.

Log probabilities are four lists: of tokens, of theirs, of the likeliest at each place, and of where in the text each
begins. An echoed prompt has them, too; its first token, which nothing precedes, has none.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from pydantic import Field

from service.errors import InvalidRequest, ServiceError
from service.messages import Delta, Turn, Usage, Wish
from service.wire import sse
from service.wire.frames import Frame
from service.wire.gathered import Answer
from service.wire.openai_body import Biases, Fields, Penalty, Seed, Stops, StreamOptions, check_streaming, read
from service.wire.openai_chat_answer import Head, usage_json
from service.wire.openai_errors import envelope
from service.wire.openai_logprobs import legacy, legacy_prompt
from service.wire.openai_texts import Text, texts

CHOICES_MAX = 128
TOKENS_DEFAULT = 16
ECHO_MAX = 524_288  # tokens of prompts in one answer
LOGPROBS_MAX = 8192  # tokens with log probabilities in one answer: each of them takes microseconds to tell
_BEGINNING = Text("", 1)  # an empty prompt is the token that ends a document


class CompletionRequest(Fields):
    model: Annotated[str, Field(min_length=1)]
    prompt: Any = None
    suffix: str | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    ignore_eos: bool | None = None
    n: Annotated[int, Field(ge=1, le=CHOICES_MAX)] | None = None
    best_of: Annotated[int, Field(ge=1, le=20)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    stop: Stops | None = None
    seed: Seed | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Biases | None = None
    user: str | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def each(self) -> int:
        """Choices that are told of each prompt."""
        return self.n or 1

    @property
    def drawn(self) -> int:
        """Choices that are generated for each prompt."""
        return max(self.each, self.best_of or 1)

    @property
    def limit(self) -> int:
        return TOKENS_DEFAULT if self.max_tokens is None else self.max_tokens

    def prompts(self) -> tuple[Text, ...]:
        """Raises InvalidRequest."""
        given = texts("" if self.prompt is None else self.prompt, "prompt", may_be_empty=True)
        found = tuple(text if text.tokens else _BEGINNING for text in given)
        self._check_volume(found)
        return found

    def _check_volume(self, prompts: Sequence[Text]) -> None:
        echoed = self.each * sum(prompt.tokens for prompt in prompts) if self.echo else 0
        if echoed > ECHO_MAX:
            raise InvalidRequest(
                f"Invalid 'echo': {echoed} tokens would be echoed, at most {ECHO_MAX} can.", param="echo"
            )
        told = echoed + self.drawn * len(prompts) * self.limit
        if self.logprobs is not None and told > LOGPROBS_MAX:
            raise InvalidRequest(
                f"Invalid 'logprobs': {told} tokens would come with log probabilities, at most {LOGPROBS_MAX} can.",
                param="logprobs",
            )

    def wish(self) -> Wish:
        return Wish(logprobs=self.logprobs)


def parse(body: bytes, strict: bool = True) -> CompletionRequest:
    """A request body, checked but for its prompts.

    Raises InvalidRequest with the dialect's code and the path of the faulty parameter.
    """
    request = read(body, CompletionRequest, strict)
    check_streaming(request.stream, request.stream_options)
    if request.best_of is not None and request.best_of < request.each:
        raise InvalidRequest("'best_of' must be at least 'n'.", param="best_of")
    if request.stream and request.drawn > request.each:
        raise InvalidRequest("'best_of' must equal 'n' when 'stream' is enabled.", param="best_of")
    return request


def turns(request: CompletionRequest, prompts: Sequence[Text]) -> tuple[Turn, ...]:
    """Each prompt as what the model continues; what is to stand behind the text is read before it."""
    suffix = request.suffix or ""
    return tuple(Turn("user", suffix + prompt.text) for prompt in prompts)


class Echo:
    """What stands before the generated text of each choice: the prompt, if it was asked for."""

    def __init__(self, request: CompletionRequest, prompts: Sequence[Text]) -> None:
        self.alternatives = request.logprobs
        self.each = request.each
        self.drawn = request.drawn
        self._prompts = prompts if request.echo else ()

    def text(self, choice: int) -> str:
        """Of a choice, counted among those that are told."""
        return self._prompts[choice // self.each].text if self._prompts else ""


def completion(head: Head, answers: Sequence[Answer], usage: Usage, echo: Echo) -> bytes:
    """The whole answer. Of the choices generated for a prompt, the first `n` are told: none is any likelier."""
    told = [answer for index, answer in enumerate(answers) if index % echo.drawn < echo.each]
    choices = []
    for index, answer in enumerate(told):
        before = echo.text(index)
        text = orjson.dumps(before)[1:-1] + answer.text()
        logprobs = b"null"
        if echo.alternatives is not None:
            known = legacy_prompt(before, echo.alternatives)
            known.extend(legacy(list(answer.logprobs()), len(before)))
            logprobs = known.json(echo.alternatives)
        choices.append(_choice(index, text, logprobs, answer.finish))
    return b'%b,"choices":[%b],"usage":%b}' % (_opening(head), b",".join(choices), usage_json(usage))


class Events:
    """Encodes one stream."""

    opens_early = False

    def __init__(self, head: Head, choices: int, include_usage: bool, echo: Echo) -> None:
        self._start = b"data: " + _opening(head) + b',"choices":['
        self._end = b"]%b}\n\n" % (b',"usage":null' if include_usage else b"")
        self._include_usage = include_usage
        self._echo = echo
        self._frames = [self._frame(choice) for choice in range(choices)]
        self._silent = [False] * choices  # what comes has no place here: reasoning, calls
        self._at = [0] * choices  # characters told of each choice

    def opening(self, _: Usage) -> bytes:
        """Nothing: each choice begins with text."""
        return b""

    def delta(self, delta: Delta) -> bytes:
        """One event for each token of text, and an event without text that says how a choice ended."""
        if delta.part is not None or delta.finish is not None or delta.logprobs:
            return self._turn(delta)
        return b"" if self._silent[delta.choice] else self._frames[delta.choice].around(delta.text, delta.count)

    def _turn(self, delta: Delta) -> bytes:
        """Where a part begins or ends, or tokens come with what they were likely to be."""
        choice, events = delta.choice, b""
        if delta.part is not None:
            events = self._echoed(choice) if delta.offset == 0 else b""
            self._silent[choice] = delta.part.kind != "text"
        if not self._silent[choice]:
            if delta.text and delta.logprobs:
                events += self._reckoned(choice, delta.text, delta.logprobs)
            else:
                events += self._frames[choice].around(delta.text, delta.count)
        if delta.finish is not None:
            events += self._event(choice, b"", b"null", delta.finish)
        return events

    def keepalive(self) -> bytes:
        return sse.KEEPALIVE

    def closing(self, usage: Usage) -> bytes:
        """What follows when all choices have finished."""
        if not self._include_usage:
            return sse.DONE
        return self._start + b'],"usage":%b}\n\n' % usage_json(usage) + sse.DONE

    def failure(self, error: ServiceError) -> bytes:
        """A stream that cannot be completed says so; no [DONE] follows."""
        return sse.data(envelope(error))

    def _frame(self, choice: int) -> Frame:
        after = b'","index":%d,"logprobs":null,"finish_reason":null}' % choice
        return Frame(self._start + b'{"text":"', after, [self._end])

    def _echoed(self, choice: int) -> bytes:
        before = self._echo.text(choice)
        self._at[choice] = len(before)
        if not before:
            return b""
        logprobs = b"null"
        if self._echo.alternatives is not None:
            logprobs = legacy_prompt(before, self._echo.alternatives).json(self._echo.alternatives)
        return self._event(choice, orjson.dumps(before)[1:-1], logprobs, None)

    def _reckoned(self, choice: int, text: bytes, logprobs: bytes) -> bytes:
        told = []
        for logprob in logprobs.split(b"\n"):
            known = legacy([logprob], self._at[choice])
            self._at[choice] += sum(map(len, known.tokens))
            told.append(known.json(self._echo.alternatives or 0))
        middle = b'","index":%d,"logprobs":%%b,"finish_reason":null}' % choice
        return self._frames[choice].each(text, b"\n".join(told), middle)

    def _event(self, choice: int, text: bytes, logprobs: bytes, finish: str | None) -> bytes:
        return self._start + _choice(choice, text, logprobs, finish) + self._end


def _opening(head: Head) -> bytes:
    fields = head.fields("text_completion")
    del fields["service_tier"]
    return orjson.dumps(fields)[:-1]


def _choice(index: int, text: bytes, logprobs: bytes, finish: str | None) -> bytes:
    """There are no calls here, so none has ended a choice."""
    finish = "stop" if finish == "tool_calls" else finish
    return b'{"text":"%b","index":%d,"logprobs":%b,"finish_reason":%b}' % (text, index, logprobs, orjson.dumps(finish))
