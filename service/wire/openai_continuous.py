"""Chat completions whose every chunk says what has been used by then: `continuous_usage_stats` of vLLM. Sans-IO.

The chunks are those of `service.wire.openai_chat_answer`, with another value where they say that there is no usage yet.
A key of JSON with its quotes cannot occur inside a JSON string, so it is found without decoding.
"""

from service.messages import Delta, Usage
from service.wire.openai_chat_answer import Chunks, Head, Manner

_NOTHING_YET = b',"usage":null'


class ContinuousChunks(Chunks):
    """Encodes one stream of somebody who wants the usage at its end, too."""

    def __init__(self, head: Head, choices: int, manner: Manner) -> None:
        assert manner.include_usage
        super().__init__(head, choices, manner)
        self._prompt = 0
        self._tokens = 0

    def opening(self, usage: Usage) -> bytes:
        self._prompt = usage.prompt
        return super().opening(usage)

    def delta(self, delta: Delta) -> bytes:
        """Each token counts with its chunk; what begins a part has none, and the last chunk has them all."""
        *chunks, rest = super().delta(delta).split(_NOTHING_YET)
        before, self._tokens = self._tokens, self._tokens + delta.count
        silent = max(0, len(chunks) - delta.count - (delta.finish is not None))
        told = [min(self._tokens, before + max(0, number + 1 - silent)) for number in range(len(chunks))]
        told[-1:] = [self._tokens] if told else []
        return b"".join(chunk + self._usage(tokens) for chunk, tokens in zip(chunks, told, strict=True)) + rest

    def _usage(self, tokens: int) -> bytes:
        numbers = self._prompt, tokens, self._prompt + tokens
        return b',"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}' % numbers
