"""A message request as the model reads it: turns, tools and images, and how far it is to be cached.

What is read is what is counted, so a prompt has as many tokens here as in the usage of its answer.

- Results of tools become turns of their own, of role tool. Text that stands beside them in a message comes before them:
  it goes with the results, and is no new question. A message that follows with text alone is one.
- So do instructions in the middle of a conversation: they come before the user's turn that they follow on the wire.
- Turns of one role that follow each other stay apart here: that changes nothing that is said.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service import tokenizer
from service.messages import Turn
from service.wire import anthropic_tools
from service.wire.anthropic_blocks import IMAGE_TOKENS, AnyBlock, ToolResult
from service.wire.anthropic_messages import CountRequest, Message
from service.wire.anthropic_rules import breakpoints

TTLS = {"5m": 300, "1h": 3600}  # seconds
_JOIN = "\n"  # between blocks of one turn


@dataclass(frozen=True, slots=True)
class Mark:
    """Up to here, in tokens from the beginning, the prompt is to be kept for so long."""

    tokens: int
    ttl: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """`images` has a digest of each image of each turn; it is empty if there are none. `marks` are in order."""

    turns: tuple[Turn, ...]
    images: tuple[tuple[bytes, ...], ...]
    tools: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class _Passage:
    """The blocks of one turn."""

    role: str
    blocks: Sequence[AnyBlock]

    def text(self, blocks: int | None = None) -> str:
        """Of the first so many of its blocks, or of all."""
        return _JOIN.join(filter(None, (block.words() for block in self.blocks[:blocks])))

    def images(self, blocks: int | None = None) -> tuple[bytes, ...]:
        return tuple(digest for block in self.blocks[:blocks] for digest in block.pictures())

    def tokens(self) -> int:
        inside = tokenizer.count(self.role) + tokenizer.count(self.text())
        return tokenizer.PER_MESSAGE + inside + IMAGE_TOKENS * len(self.images())

    def tokens_to(self, blocks: int) -> int:
        """Up to the end of the first so many of its blocks."""
        if blocks >= len(self.blocks):
            return self.tokens()
        before = tokenizer.PER_MESSAGE - 1 + tokenizer.count(self.role)
        return before + tokenizer.count(self.text(blocks)) + IMAGE_TOKENS * len(self.images(blocks))


def read(request: CountRequest) -> Prompt:
    """Raises InvalidRequest: something is nested too deeply."""
    passages = [passage for said in _said(request) for passage in said]
    turns = tuple(Turn(passage.role, passage.text()) for passage in passages)
    images = tuple(passage.images() for passage in passages)
    tools = anthropic_tools.text(request.tool_documents) if request.tool_documents else ""
    marks = sorted(_marks(request, tools), key=lambda mark: mark.tokens)
    return Prompt(turns, images if any(images) else (), tools, tuple(marks))


def _said(request: CountRequest) -> Iterator[list[_Passage]]:
    """The passages of the instructions, then those of each message."""
    yield [_Passage("system", request.system)] if request.system else []
    for message in _as_read(request.messages):
        results = [block for block in message.content if isinstance(block, ToolResult)]
        beside = [block for block in message.content if not isinstance(block, ToolResult)]
        first = [_Passage(message.role, beside)] if beside or not results else []
        yield first + [_Passage("tool", [result]) for result in results]


def _as_read(messages: Sequence[Message]) -> list[Message]:
    """Instructions before the user's messages that they follow."""
    read: list[Message] = []
    for message in messages:
        at = len(read)
        while message.role == "system" and at and read[at - 1].role == "user":
            at -= 1
        read.insert(at, message)
    return read


def _marks(request: CountRequest, tools: str) -> Iterator[Mark]:
    """In the order of the prompt; nothing is counted for a request that marks nothing."""
    if not any(True for _ in breakpoints(request)):
        return
    for index, tool in enumerate(request.tools or ()):
        if tool.cache_control:
            text = anthropic_tools.text(request.tool_documents[: index + 1])
            yield Mark(tokenizer.count(text), tool.cache_control.ttl)
    tokens = tokenizer.count(tools) if tools else 0
    contents: list[Sequence[AnyBlock]] = [request.system or [], *(each.content for each in _as_read(request.messages))]
    for content, passages in zip(contents, _said(request), strict=True):
        end = tokens + sum(passage.tokens() for passage in passages)
        yield from _within(content, passages, tokens, end)
        tokens = end
    if request.cache_control:
        yield Mark(tokens, request.cache_control.ttl)


def _within(content: Sequence[AnyBlock], passages: Sequence[_Passage], start: int, end: int) -> Iterator[Mark]:
    """Marks of one message. Its last block's is at its end, wherever the block stands in the prompt."""
    found = {}
    for passage in passages:
        for number, block in enumerate(passage.blocks):
            ttl = _ttl(block)
            if ttl is not None:
                found[id(block)] = Mark(start + passage.tokens_to(number + 1), ttl)
        start += passage.tokens()
    if content and id(content[-1]) in found:
        found[id(content[-1])] = Mark(end, found[id(content[-1])].ttl)
    yield from sorted(found.values(), key=lambda mark: mark.tokens)


def _ttl(block: AnyBlock) -> str | None:
    """How long a block, or a piece of a tool's result, asks to be kept."""
    inner = [piece.cache_control for piece in block.content or ()] if isinstance(block, ToolResult) else []
    return next((control.ttl for control in (*inner, block.cache_control) if control), None)
