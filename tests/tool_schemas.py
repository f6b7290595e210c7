"""Schemas of tools as they are met: coding agents, assistants, connectors, and what schema generators make of types."""

from typing import Any

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
FLAG: dict[str, Any] = {"type": "boolean"}


def obj(required: str = "", closed: bool = False, /, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required.split()}
    return schema | ({"additionalProperties": False} if closed else {})


def of(items: Any, **bounds: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **bounds}


def text(description: str = "", **bounds: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **bounds}


def one(*values: Any) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def maybe(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}], "default": None}


DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
SAFE = {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}
POSITIVE = {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991}

TOOLS: dict[str, dict[str, Any]] = {
    # coding agents
    "Read": DIALECT | obj("file_path", True, file_path=text("The absolute path"), offset=POSITIVE, limit=POSITIVE),
    "Write": DIALECT | obj("file_path content", True, file_path=TEXT, content=TEXT),
    "Edit": DIALECT
    | obj(
        "file_path old_string new_string",
        True,
        file_path=TEXT,
        old_string=TEXT,
        new_string=TEXT,
        replace_all={"type": "boolean", "default": False},
    ),
    "MultiEdit": obj(
        "file_path edits",
        file_path=TEXT,
        edits=of(obj("old_string new_string", True, old_string=TEXT, new_string=TEXT), minItems=1),
    ),
    "Bash": DIALECT | obj("command", True, command=TEXT, timeout={"type": "number"}, run_in_background=FLAG),
    "Glob": obj("pattern", True, pattern=TEXT, path=TEXT),
    "Grep": obj(
        "pattern",
        True,
        pattern=TEXT,
        path=TEXT,
        output_mode=one("content", "files_with_matches", "count"),
        **{"-A": WHOLE, "-i": FLAG},
    ),
    "TodoWrite": obj(
        "todos",
        True,
        todos=of(
            obj(
                "content status activeForm",
                True,
                content=text(minLength=1),
                status=one("pending", "in_progress", "completed"),
                activeForm=text(minLength=1),
            )
        ),
    ),
    "WebFetch": obj("url prompt", True, url=text(format="uri"), prompt=TEXT),
    "NotebookEdit": obj(
        "notebook_path new_source", notebook_path=TEXT, cell_id=TEXT, new_source=TEXT, cell_type=one("code", "markdown")
    ),
    "AskUserQuestion": obj(
        "questions",
        True,
        questions=of(
            obj(
                "question header options multiSelect",
                True,
                question=TEXT,
                header=text(maxLength=12),
                options=of(obj("label description", True, label=TEXT, description=TEXT), minItems=2, maxItems=4),
                multiSelect=FLAG,
            ),
            minItems=1,
            maxItems=4,
        ),
    ),
    "exec_command": obj("cmd", True, cmd=TEXT, workdir=TEXT, yield_time_ms={"type": "number"}, tty=FLAG),
    "write_stdin": obj("session_id", True, session_id={"type": "number"}, chars=TEXT),
    "update_plan": obj(
        "plan", True, explanation=TEXT, plan=of(obj("step status", True, step=TEXT, status=one("pending", "done")))
    ),
    "str_replace_based_edit_tool": obj(
        "command path",
        command=one("view", "create", "str_replace", "insert"),
        path=TEXT,
        view_range=of(WHOLE, minItems=2, maxItems=2),
    ),
    "computer": obj(
        "action",
        action=one("key", "type", "mouse_move", "left_click", "screenshot"),
        coordinate={"type": "array", "prefixItems": [WHOLE, WHOLE], "minItems": 2, "maxItems": 2},
    ),
    # assistants
    "get_weather": obj(
        "location", location=text("The city and state, e.g. San Francisco, CA"), unit=one("celsius", "fahrenheit")
    ),
    "get_forecast": obj("lat lon", lat={"type": "number", "minimum": -90, "maximum": 90}, lon={"type": "number"}),
    "send_email": obj("to subject body", True, to=of(text(format="email"), minItems=1), subject=TEXT, body=TEXT),
    "create_event": obj(
        "title start end",
        title=TEXT,
        start=text(format="date-time"),
        end=text(format="date-time"),
        attendees=of(obj("email", email=text(format="email"), optional=FLAG)),
    ),
    "set_timer": obj("duration", duration=text(format="duration"), label=TEXT),
    "add": obj("a b", a={"type": "number"}, b={"type": "number"}),
    "calculate": obj("expression", expression=TEXT),
    "convert_currency": obj(
        "amount from to",
        amount={"type": "number", "minimum": 0},
        **{"from": text(pattern="^[A-Z]{3}$"), "to": text(pattern="^[A-Z]{3}$")},
    ),
    "translate": obj("text target_language", text=TEXT, target_language=text("ISO code", minLength=2, maxLength=2)),
    "search_web": obj("query", query=TEXT, count={"type": "integer", "minimum": 1, "maximum": 20, "default": 10}),
    "book_flight": obj(
        "from to date passengers",
        date=text(format="date"),
        passengers={"type": "integer", "minimum": 1, "maximum": 9},
        cabin=one("economy", "business"),
        **{"from": TEXT, "to": TEXT},
    ),
    "order_pizza": obj(
        "size toppings",
        size={"enum": ["small", "large"]},
        toppings=of(one("ham", "olives", "basil", "corn"), uniqueItems=True, minItems=2),
        address={"$ref": "#/$defs/address"},
    )
    | {"$defs": {"address": obj("street zip", street=TEXT, zip=text(pattern=r"^\d{5}(-\d{4})?$"))}},
    "set_thermostat": obj("celsius", celsius={"type": "number", "multipleOf": 0.5, "minimum": 5, "maximum": 30}),
    "no_arguments": {"type": "object", "properties": {}},
    "empty_schema": {"type": "object"},
    "play_music": obj("", artist=TEXT, track=TEXT, shuffle=FLAG, volume={"type": "integer", "maximum": 11}),
    # connectors
    "sql_query": obj("sql", sql=TEXT, parameters=of({"type": ["string", "number", "boolean", "null"]})),
    "http_request": obj(
        "method url",
        method=one("GET", "POST", "PUT"),
        url=text(format="uri"),
        headers={"type": "object", "additionalProperties": {"type": "string"}},
        body={},
    ),
    "create_issue": obj(
        "owner repo title", owner=TEXT, repo=TEXT, title=TEXT, labels=of(TEXT), assignees=of(TEXT), milestone=WHOLE
    ),
    "list_commits": obj("owner repo", owner=TEXT, repo=TEXT, sha=TEXT, page={"type": "number"}, perPage=WHOLE),
    "post_message": obj("channel_id text", channel_id=text(pattern="^C[A-Z0-9]{8,10}$"), text=TEXT),
    "query_database": obj(
        "database_id",
        database_id=text(format="uuid"),
        filter={
            "oneOf": [
                obj("property equals", True, property=TEXT, equals=TEXT),
                obj("and", True, **{"and": of(obj("property equals", property=TEXT, equals=TEXT), minItems=1)}),
            ]
        },
        page_size={"type": "integer", "minimum": 1, "maximum": 100},
    ),
    "upload_file": obj("data", data=text(contentEncoding="base64"), mime=text(pattern="^[a-z]+/[a-z]+$")),
    "browser_navigate": obj("url", True, url=TEXT),
    "browser_fill_form": obj(
        "fields", fields=of(obj("name type ref value", name=TEXT, type=one("textbox", "slider"), ref=TEXT, value=TEXT))
    ),
    "read_graph": DIALECT | obj(),
    "create_entities": obj(
        "entities",
        entities=of(obj("name entityType observations", name=TEXT, entityType=TEXT, observations=of(TEXT))),
    ),
    "sequential_thinking": obj(
        "thought nextThoughtNeeded thoughtNumber totalThoughts",
        thought=TEXT,
        nextThoughtNeeded=FLAG,
        thoughtNumber={"type": "integer", "minimum": 1},
        totalThoughts={"type": "integer", "minimum": 1},
    ),
    "create_payment": obj(
        "amount currency method",
        amount={"type": "integer", "exclusiveMinimum": 0},
        currency=one("usd", "eur"),
        method={
            "anyOf": [
                obj("kind number", True, kind={"const": "card"}, number=text(pattern=r"^\d{16}$")),
                obj("kind iban", True, kind={"const": "bank"}, iban=text(pattern=r"^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$")),
            ]
        },
    ),
    "resize_image": obj("width", width=POSITIVE, height=POSITIVE, color=text(pattern="^#[0-9a-fA-F]{6}$")),
    "whois": obj("host", host={"anyOf": [text(format="hostname"), text(format="ipv4"), text(format="ipv6")]}),
    "schedule_job": obj("cron", cron=text(pattern=r"^(\S+\s+){4}\S+$"), timezone=text(default="UTC")),
    # what generators make of types: optional fields, unions, maps, tuples, references, recursion
    "pydantic_optional": obj("name", name=TEXT, nickname=maybe(TEXT), age=maybe(WHOLE))
    | {"title": "Person", "description": "Someone."},
    "pydantic_references": obj("items owner", items=of({"$ref": "#/$defs/Item"}), owner={"$ref": "#/$defs/Owner"})
    | {
        "$defs": {
            "Item": obj("sku n", sku=text(pattern="^[A-Z]{3}-[0-9]{4}$"), n={"type": "integer", "minimum": 1}),
            "Owner": obj("id", id=text(format="uuid"), email=maybe(text(format="email"))),
        }
    },
    "pydantic_discriminated": obj(
        "shape",
        shape={
            "discriminator": {"propertyName": "kind"},
            "oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}],
        },
    )
    | {
        "$defs": {
            "Circle": obj("kind radius", kind={"const": "circle", "type": "string"}, radius={"type": "number"}),
            "Square": obj("kind side", kind={"const": "square", "type": "string"}, side={"type": "number"}),
        }
    },
    "pydantic_recursive": obj("root", root={"$ref": "#/$defs/Node"})
    | {"$defs": {"Node": obj("name", name=TEXT, children=of({"$ref": "#/$defs/Node"}, default=[]))}},
    "pydantic_tuple": obj(
        "point",
        point={"type": "array", "maxItems": 2, "minItems": 2, "prefixItems": [{"type": "number"}, {"type": "number"}]},
    ),
    "pydantic_map": obj("scores", scores={"type": "object", "additionalProperties": {"type": "number"}}),
    "zod_strict": DIALECT | obj("id tags", True, id=SAFE, tags=of(text(minLength=1, maxLength=20), maxItems=5)),
    "zod_union": obj("value", True, value={"anyOf": [TEXT, {"type": "number"}, of(TEXT)]}),
    "zod_record": obj("env", True, env={"type": "object", "propertyNames": TEXT, "additionalProperties": TEXT}),
    "draft_7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"pair": {"type": "array", "items": [TEXT, WHOLE], "additionalItems": False, "minItems": 2}},
        "properties": {"pair": {"$ref": "#/definitions/pair"}},
        "required": ["pair"],
    },
    "draft_4_undeclared": obj("n", n={"type": "integer", "minimum": 3, "exclusiveMinimum": True}),
    "gemini_like": obj("city", city={"type": "string", "nullable": True}, days={"type": "integer", "format": "int32"}),
    "dependent": obj("card", card=TEXT, billing=TEXT) | {"dependentRequired": {"card": ["billing"]}},
    "conditional": obj("country code", country=one("US", "DE"), code=TEXT)
    | {
        "if": {"properties": {"country": {"const": "US"}}},
        "then": {"properties": {"code": {"pattern": r"^\d{5}$"}}},
        "else": {"properties": {"code": {"pattern": r"^D-\d{5}$"}}},
    },
    "intersection": {
        "allOf": [obj("a", a=WHOLE), obj("b", b=TEXT)],
        "type": "object",
        "unevaluatedProperties": False,
    },
    "prefixed_headers": {
        "type": "object",
        "patternProperties": {"^x-[a-z]{3,8}$": TEXT},
        "additionalProperties": False,
        "minProperties": 2,
    },
    "password": obj("password", password=text(pattern=r"^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,20}$")),
    "rgb": obj("pixels", pixels=of(of({"type": "integer", "minimum": 0, "maximum": 255}, minItems=3, maxItems=3))),
    "negated": obj("user", user={"type": "string", "minLength": 1, "not": {"enum": ["root", "admin"]}}),
}  # fmt: skip
