"""What a process is told from outside is read once, and refused when it cannot be."""

import pytest

from service.settings import Settings, SettingsError, read


def test_nothing_said_gives_the_defaults() -> None:
    assert read({"HOME": "/nowhere"}) == Settings()


def test_what_is_said_counts() -> None:
    settings = read(
        {"FASTMODE_PORT": "8001", "FASTMODE_GRACE": "0", "FASTMODE_REUSE_PORT": "yes", "FASTMODE_CATALOG": ""}
    )
    assert (settings.port, settings.grace, settings.reuse_port, settings.catalog) == (8001, 0.0, True, None)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("FASTMODE_PROT", "8001"),
        ("FASTMODE_PORT", "http"),
        ("FASTMODE_PORT", "70000"),
        ("FASTMODE_GRACE", "nan"),
        ("FASTMODE_GRACE", "inf"),
        ("FASTMODE_GRACE", "-1"),
        ("FASTMODE_FLUSH_EVERY", "nan"),
        ("FASTMODE_REDIS_TIMEOUT", "0"),
        ("FASTMODE_REPLY_TTL", "0"),
        ("FASTMODE_LEASE", "0.01"),
        ("FASTMODE_ATTEMPTS_MAX", "0"),
        ("FASTMODE_BODY_MAX", "-1"),
        ("FASTMODE_QUEUE_BYTES_MAX", "0"),
        ("FASTMODE_BODIES_MAX", "1"),
        ("FASTMODE_MAILBOX_PAUSE", "0"),
        ("FASTMODE_LOG_LEVEL", "foo"),
        ("FASTMODE_CORS_ORIGINS", "example.com"),
        ("FASTMODE_CORS_ORIGINS", "https://example.com,*"),
        ("FASTMODE_REUSE_PORT", "maybe"),
        ("REDIS_URL", "localhost"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(variable: str, text: str) -> None:
    with pytest.raises(SettingsError, match=variable):
        read({variable: text})
