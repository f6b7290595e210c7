"""Keys: who needs one, what it lets its owner do, and that nothing of it is ever told again."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
import quick

from fastmode.up import Service

MESSAGES: Any = [{"role": "user", "content": "Hello"}]
WRONG = "sk-fastmode-000000000000-" + "0" * 64


@pytest.fixture(scope="module")
def service(module_stack: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Service:
    pools = quick.catalog(tmp_path_factory.mktemp("quick"))
    return module_stack(catalog=pools, FASTMODE_AUTH="required", FASTMODE_ADMIN_KEY="the admin's", **quick.SETTINGS)


@pytest.fixture(scope="module")
def admin(service: Service) -> Iterator[httpx.Client]:
    headers = {"authorization": "Bearer the admin's"}
    with httpx.Client(base_url=f"{service.base_url}/admin", headers=headers, trust_env=False) as client:
        yield client


@pytest.fixture
def key(admin: httpx.Client) -> Callable[..., str]:
    def make(**fields: Any) -> str:
        made = admin.post("/keys", json={"name": "test", **fields})
        assert made.status_code == 201, made.text
        text: str = made.json()["key"]
        return text

    return make


@contextmanager
def _openai(service: Service, key: str) -> Iterator[openai.OpenAI]:
    with openai.DefaultHttpxClient(trust_env=False) as http:
        yield openai.OpenAI(base_url=f"{service.base_url}/v1", api_key=key, max_retries=0, http_client=http)


@contextmanager
def _anthropic(service: Service, **credentials: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.DefaultHttpxClient(trust_env=False) as http:
        yield anthropic.Anthropic(base_url=service.base_url, max_retries=0, http_client=http, **credentials)  # type: ignore[arg-type]


def chat(client: openai.OpenAI, model: str = "gpt-5.3-codex", **fields: Any) -> str | None:
    tier: str | None = client.chat.completions.create(
        model=model, messages=MESSAGES, max_tokens=2, **fields
    ).service_tier
    return tier


def message(client: anthropic.Anthropic, **fields: Any) -> Any:
    return client.messages.create(model="claude-opus-5-5", messages=MESSAGES, max_tokens=2, **fields)


def test_both_headers_carry_the_same_key_on_either_dialects_routes(service: Service, key: Callable[..., str]) -> None:
    own = key()
    for headers in ({"authorization": f"Bearer {own}"}, {"x-api-key": own}):
        with httpx.Client(base_url=service.base_url, headers=headers, trust_env=False) as client:
            asked = {"model": "gpt-5.3-codex", "messages": MESSAGES, "max_tokens": 2}
            assert client.post("/v1/chat/completions", json=asked).status_code == 200
            said = {**asked, "model": "claude-opus-5-5"}
            version = {"anthropic-version": "2023-06-01"}
            assert client.post("/v1/messages", json=said, headers=version).status_code == 200


@pytest.mark.parametrize("wrong", [WRONG, "sk-anything", "", "☃"])
def test_a_wrong_key_is_refused_in_the_words_of_the_route_and_is_not_repeated(service: Service, wrong: str) -> None:
    headers = {"authorization": f"Bearer {wrong}".encode()} if wrong else {}
    with httpx.Client(base_url=service.base_url, headers=headers, trust_env=False) as client:  # type: ignore[arg-type]
        refused = client.post("/v1/chat/completions", content=b"no JSON")
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
        other = client.post("/v1/messages", content=b"no JSON")
        assert (other.status_code, other.json()["error"]["type"]) == (401, "authentication_error")
        assert not wrong or wrong not in refused.text + other.text
        assert {"x-request-id", "request-id"} <= {*refused.headers, *other.headers}


def test_the_sdks_raise_what_they_have_for_it(service: Service) -> None:
    with _openai(service, WRONG) as client, pytest.raises(openai.AuthenticationError):
        chat(client)
    for credentials in ({"api_key": WRONG}, {"auth_token": WRONG}):
        with _anthropic(service, **credentials) as theirs, pytest.raises(anthropic.AuthenticationError):
            message(theirs)


def test_a_socket_is_refused_before_it_is_opened(service: Service) -> None:
    with _openai(service, WRONG) as client, pytest.raises(Exception, match="401"), client.responses.connect():
        pass


def test_a_key_is_shown_once_and_never_again(service: Service, admin: httpx.Client, key: Callable[..., str]) -> None:
    own = key(name="shown once")
    secret = own.rpartition("-")[2]
    listed = admin.get("/keys").text
    assert "shown once" in listed
    assert secret not in listed
    with _openai(service, own) as client:
        chat(client)
    assert secret not in httpx.get(f"{service.base_url}/metrics", trust_env=False).text


def test_a_key_that_is_blocked_or_deleted_opens_nothing(
    service: Service, admin: httpx.Client, key: Callable[..., str]
) -> None:
    own = key()
    name = own.split("-")[2]
    with _openai(service, own) as client:
        assert chat(client)
        assert admin.patch(f"/keys/{name}", json={"blocked": True}).json()["blocked"]
        with pytest.raises(openai.PermissionDeniedError):
            chat(client)
        admin.patch(f"/keys/{name}", json={"blocked": False})
        assert chat(client)
        assert admin.delete(f"/keys/{name}").json() == {"id": name, "deleted": True}
        with pytest.raises(openai.AuthenticationError):
            chat(client)
    assert admin.delete(f"/keys/{name}").status_code == 404


def test_a_key_for_some_models_knows_of_no_others(service: Service, key: Callable[..., str]) -> None:
    own = key(models=["gpt-5.3-codex", "claude-opus-5-5"])
    with _openai(service, own) as client:
        assert chat(client)
        assert [model.id for model in client.models.list()] == ["claude-opus-5-5", "gpt-5.3-codex"]
        for ask in (lambda: chat(client, model="gpt-5.4"), lambda: client.models.retrieve("gpt-5.4")):
            with pytest.raises(openai.NotFoundError) as refused:
                ask()
            assert refused.value.code == "model_not_found"
    with _anthropic(service, api_key=own) as theirs:
        assert [model.id for model in theirs.models.list()] == ["claude-opus-5-5", "gpt-5.3-codex"]
        with pytest.raises(anthropic.NotFoundError):
            theirs.models.retrieve("claude-opus-5")


def test_a_key_for_some_tiers_gets_no_others(service: Service, key: Callable[..., str]) -> None:
    with _openai(service, key(tiers=["standard"])) as client:
        assert chat(client) == "default"
        with pytest.raises(openai.PermissionDeniedError):
            chat(client, service_tier="priority")


def test_above_its_highest_tier_openai_serves_the_default_and_says_so_and_anthropic_refuses(
    service: Service, key: Callable[..., str]
) -> None:
    own = key(highest="standard")
    with _openai(service, own) as client:
        assert chat(client, service_tier="priority") == "default"
    with _anthropic(service, api_key=own) as theirs:
        assert message(theirs).usage.output_tokens == 2
        with pytest.raises(anthropic.BadRequestError, match="not enabled for your organization"):
            message(theirs, extra_body={"speed": "fast"})


def test_a_project_has_a_tier_of_its_own_for_requests_that_name_none(service: Service, key: Callable[..., str]) -> None:
    with _openai(service, key(default_tier="fast")) as client:
        assert chat(client) == chat(client, service_tier="auto") == "priority"
        assert chat(client, service_tier="default") == "default"
        assert chat(client, model="claude-haiku-5-5") == "default", "it is sold at no other tier"


@pytest.mark.parametrize(
    ("said", "param"),
    [
        ({"tiers": ["warp"]}, "tiers"),
        ({"models": ["gpt-0"]}, "models"),
        ({"highest": "warp"}, "highest"),
        ({"budget": -1}, "budget"),
        ({"weight": 0}, "weight"),
        ({"colour": "red"}, "colour"),
        ({"id": "mine"}, "id"),
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(admin: httpx.Client, said: dict[str, Any], param: str) -> None:
    refused = admin.post("/keys", json={"name": "odd", **said})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_only_who_has_the_admin_key_makes_keys(service: Service, key: Callable[..., str]) -> None:
    for said in ({}, {"authorization": f"Bearer {key()}"}):
        assert httpx.get(f"{service.base_url}/admin/keys", headers=said, trust_env=False).status_code == 401
    from_elsewhere = {"authorization": "Bearer the admin's", "origin": "https://example.com"}
    assert httpx.get(f"{service.base_url}/admin/keys", headers=from_elsewhere, trust_env=False).status_code == 404


def test_the_command_makes_a_key_that_works_and_can_be_blocked(service: Service, bare_environ: dict[str, str]) -> None:
    port = service.base_url.rpartition(":")[2]
    environ = {**bare_environ, "FASTMODE_PORT": port, "FASTMODE_ADMIN_KEY": "the admin's"}

    def fastmode(*words: str) -> str:
        command = [sys.executable, "-m", "fastmode", "keys", *words]
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
        return ran.stdout.strip()

    own = fastmode("create", "by command", "--budget", "5/day", "--tier", "standard", "--tier", "fast")
    listed = fastmode("list")
    assert "by command" in listed
    assert "$5.00 a day" in listed
    with _openai(service, own) as client:
        assert chat(client, service_tier="fast") == "priority"
        fastmode("block", own.split("-")[2])
        with pytest.raises(openai.PermissionDeniedError):
            chat(client)


def test_until_there_is_a_key_any_will_do_on_ones_own_machine(stack: Callable[..., Service], tmp_path: Path) -> None:
    """And from then on none but that."""
    service = stack(catalog=quick.catalog(tmp_path), **quick.SETTINGS)
    with _openai(service, "anything") as client, httpx.Client(base_url=service.base_url, trust_env=False) as http:
        assert chat(client)
        own = http.post("/admin/keys", json={"name": "first"}).json()["key"]
        with pytest.raises(openai.AuthenticationError):
            chat(client)
        assert chat(client.with_options(api_key=own))
