"""What the Messages API refuses although every field is fine by itself: by version, by model, and in conversations.

Words after errors that clients of the real API have met and published; some match on them. Rules of a model come as
`service.profiles.AnthropicRules`.
"""

from collections.abc import Iterator, Mapping, Sequence

from service.errors import InvalidRequest
from service.profiles import AnthropicRules
from service.wire import anthropic_thinking, anthropic_tools
from service.wire.anthropic_blocks import AnyBlock, CacheControl, Text, Thinking, ToolResult, ToolUse
from service.wire.anthropic_errors import invalid
from service.wire.anthropic_messages import CountRequest, Message, MessagesRequest
from service.wire.anthropic_tools import AnyChoice, ToolChoice

STRICT_VERSION = "2026-10-21"  # from which on sampling parameters are gone, and some blocks have their place
BREAKPOINTS_MAX = 4

_SAMPLING = ("temperature", "top_p", "top_k")


def version(headers: Mapping[str, str], known: Sequence[str]) -> str:
    """The `anthropic-version` of a request. Raises InvalidRequest: it has none, or one that is not known."""
    given = headers.get("anthropic-version")
    if given is None:
        raise invalid("anthropic-version: header is required")
    if given not in known:
        raise invalid(f'anthropic-version: "{given[:64]}" is not a valid version')
    return given


def check(request: CountRequest, rules: AnthropicRules, version: str) -> None:
    """Raises InvalidRequest for the first rule that the request breaks."""
    if isinstance(request, MessagesRequest):
        if request.thread is not None:
            raise InvalidRequest("Conversations are not kept here.", code="thread_unsupported_request", param="thread")
        _check_sampling(request, rules, version)
        _check_length(request)
    anthropic_tools.check(request.tools or (), request.tool_choice)
    if request.schema_document is not None:
        anthropic_tools.check_schema(request.schema_document, "output_config.format.schema")
    if request.thinking is not None:
        forced = isinstance(request.tool_choice, AnyChoice | ToolChoice)
        limit = request.max_tokens if isinstance(request, MessagesRequest) else 2**63
        anthropic_thinking.check(request.thinking, rules.thinking, limit, forced)
    if not request.messages:
        raise invalid("messages: at least one message is required")
    _check_roles(request.messages)
    for index, message in enumerate(request.messages):
        _check_blocks(message, index, last=index == len(request.messages) - 1, strict=version >= STRICT_VERSION)
    _check_calls(request.messages)
    _check_end(request.messages, rules)
    _check_breakpoints(request)


def breakpoints(request: CountRequest) -> Iterator[tuple[str, CacheControl]]:
    """Where and how a prompt is to be cached, in the order in which it is read: tools, system, messages."""
    for index, tool in enumerate(request.tools or ()):
        if tool.cache_control:
            yield f"tools.{index}", tool.cache_control
    for index, text in enumerate(request.system or ()):
        if text.cache_control:
            yield f"system.{index}", text.cache_control
    for number, message in enumerate(request.messages):
        for index, block in enumerate(message.content):
            for inner in block.content or () if isinstance(block, ToolResult) else ():
                if inner.cache_control:
                    yield f"messages.{number}.content.{index}", inner.cache_control
            if block.cache_control:
                yield f"messages.{number}.content.{index}", block.cache_control
    if request.cache_control:
        yield "", request.cache_control


def _check_sampling(request: MessagesRequest, rules: AnthropicRules, version: str) -> None:
    given = {name: value for name in _SAMPLING if (value := getattr(request, name)) is not None}
    if given and version >= STRICT_VERSION:
        raise invalid(f"{next(iter(given))}: Extra inputs are not permitted")
    if rules.sampling == "default":
        for name, value in given.items():
            if value != 1 or name == "top_k":
                raise invalid(f"`{name}` is deprecated for this model.")
    if not anthropic_thinking.active(request.thinking):
        return
    if given.get("temperature", 1) != 1:
        raise invalid("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.")
    if given.get("top_p", 1) < 0.95:
        raise invalid("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.")
    if "top_k" in given:
        raise invalid("`top_k` must be unset when thinking is enabled.")


def _check_length(request: MessagesRequest) -> None:
    for index, sequence in enumerate(request.stop_sequences or ()):
        if not sequence.strip():
            raise invalid(f"stop_sequences.{index}: each stop sequence must contain non-whitespace")
    if request.max_tokens == 0 and request.stream:
        raise invalid("max_tokens: 0 is not allowed with stream: true")


def _check_roles(messages: Sequence[Message]) -> None:
    """Turns of one role may follow each other: they are read as one. Where instructions may stand is limited."""
    for index, message in enumerate(messages):
        if message.role not in ("user", "assistant", "system"):
            raise invalid(f'messages: Unexpected role "{message.role[:64]}". Allowed roles are "user" or "assistant"')
        if message.role != "system":
            continue
        if index == 0:
            raise invalid("messages.0: use the top-level 'system' parameter for the initial system prompt")
        if messages[index + 1 : index + 2] and messages[index + 1].role == "user":
            raise invalid(f"messages.{index}: role 'system' must precede an 'assistant' message or end the array")


def _check_blocks(message: Message, index: int, last: bool, strict: bool) -> None:
    role, path = message.role, f"messages.{index}"
    for place, block in enumerate(message.content):
        at = f"{path}.content.{place}"
        if role == "system" and block.type not in ("text", "tool_addition", "tool_removal"):
            raise invalid(f"{path}: role 'system' supports text, tool_addition, and tool_removal blocks only")
        if block.type in ("tool_use", "thinking", "redacted_thinking") and role != "assistant":
            raise invalid(f"{path}: `{block.type}` blocks can only be in `assistant` messages")
        if isinstance(block, ToolResult) and role != "user":
            raise invalid(f"{path}: `tool_result` blocks can only be in `user` messages")
        if strict and block.type == "document" and role == "assistant":
            raise invalid(f"{at}: `document` blocks are not permitted in `assistant` messages")
        if isinstance(block, Text):
            _check_text(block, at, role, last and role == "assistant", strict)
        if isinstance(block, Thinking) and not anthropic_thinking.genuine(block.thinking, block.signature):
            raise invalid(f"{at}: Invalid `signature` in `thinking` block")


def _check_text(block: Text, at: str, role: str, prefill: bool, strict: bool) -> None:
    if not block.text and block.cache_control:
        raise invalid(f"{at}.text: cache_control cannot be set for empty text blocks")
    if not block.text and not prefill:
        raise invalid("messages: text content blocks must be non-empty")
    if not block.text.strip() and not prefill:
        raise invalid("messages: text content blocks must contain non-whitespace text")
    if strict and block.citations and role == "user":
        raise invalid(f"{at}.text.citations: citations are not permitted in `user` messages")


def _check_calls(messages: Sequence[Message]) -> None:
    """Each call of a tool has one result, in the turn that follows, and a turn of the user something to say."""
    open_at, unanswered = 0, dict[str, None]()
    seen = set[str]()
    for turn in _turns(messages):
        role = messages[turn[0]].role
        if role == "system":
            continue
        if role == "user" and not any(messages[index].content for index in turn):
            raise invalid(f"messages.{turn[0]}: user messages must have non-empty content")
        calls = [(index, block) for index in turn for block in messages[index].content if isinstance(block, ToolUse)]
        if role == "user":
            _answer(messages, turn, unanswered)
        if unanswered:
            raise _unanswered(open_at, unanswered)
        for index, call in calls:
            if call.id in seen:
                raise invalid(f"messages.{index}: `tool_use` ids must be unique")
            seen.add(call.id)
            open_at, unanswered[call.id] = index, None
    if unanswered:
        raise _unanswered(open_at, unanswered)


def _answer(messages: Sequence[Message], turn: Sequence[int], unanswered: dict[str, None]) -> None:
    """Strikes off what the turn has results for."""
    answered = set[str]()
    for index in turn:
        for place, block in enumerate(messages[index].content):
            if not isinstance(block, ToolResult):
                continue
            at, name = f"messages.{index}.content.{place}", block.tool_use_id
            if name in answered:
                twice = "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
                raise invalid(f"{at}: {twice}: {name}")
            if name not in unanswered:
                raise invalid(
                    f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each `tool_result` block "
                    "must have a corresponding `tool_use` block in the previous message."
                )
            answered.add(name)
            del unanswered[name]


def _unanswered(index: int, names: Mapping[str, None]) -> Exception:
    return invalid(
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(names)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _turns(messages: Sequence[Message]) -> Iterator[list[int]]:
    """The places of messages of one role that follow each other."""
    turn = [0]
    for index in range(1, len(messages)):
        if messages[index].role != messages[turn[0]].role:
            yield turn
            turn = []
        turn.append(index)
    yield turn


def _check_end(messages: Sequence[Message], rules: AnthropicRules) -> None:
    if messages[-1].role != "assistant":
        return
    if not rules.prefill:
        raise invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    block: AnyBlock | None = messages[-1].content[-1] if messages[-1].content else None
    if isinstance(block, Text) and block.text != block.text.rstrip():
        raise invalid("messages: final assistant content cannot end with trailing whitespace")


def _check_breakpoints(request: CountRequest) -> None:
    found = list(breakpoints(request))
    if len(found) > BREAKPOINTS_MAX:
        raise invalid(f"A maximum of 4 blocks with cache_control may be provided. Found {len(found)}.")
    short = False
    for path, control in found:
        if control.ttl == "1h" and short:
            at = f"{path}.cache_control.ttl".lstrip(".")
            raise invalid(
                f"{at}: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that "
                "blocks are processed in the following order: `tools`, `system`, `messages`."
            )
        short = short or control.ttl == "5m"
