"""The fixture that tests of clients use, in runs of pytest of their own."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

README = Path(__file__).parent.parent.parent / "README.md"
QUIET = ("-p", "no:cacheprovider")


def test_the_readmes_example_passes_and_each_test_finds_the_service_as_new(pytester: pytest.Pytester) -> None:
    (example,) = re.findall(r"```python\n(from openai import OpenAI\n+def test_.*?)```", README.read_text(), re.DOTALL)
    forgotten = """
def test_nothing_is_left_of_the_test_before(fastmode):
    assert fastmode.journal() == []
    client = OpenAI(base_url=fastmode.env["OPENAI_BASE_URL"], api_key=fastmode.env["OPENAI_API_KEY"])
    asked = {"messages": [{"role": "user", "content": "Go"}], "max_tokens": 3, "service_tier": "spark"}
    assert client.chat.completions.create(model="gpt-5.3-codex", **asked).choices[0].finish_reason == "length"
    (entry,) = fastmode.journal()
    assert (entry.rule, entry.tier_served, entry.usage.completion) == ("", "spark", 3)
"""
    pytester.makepyfile(example + forgotten)
    pytester.runpytest_subprocess(*QUIET).assert_outcomes(passed=2)


def test_a_run_that_does_not_use_it_loads_nothing_of_the_service(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_of_something_else():
            assert "fastmode.pytest_plugin" in sys.modules
            assert not {"fastmode.testing", "service", "gateway", "workers"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess(*QUIET).assert_outcomes(passed=1)


def test_a_setting_that_cannot_be_is_an_error_of_the_test_that_uses_it(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfastmode_env =\n    FASTMODE_COLOUR = red\n")
    pytester.makepyfile("def test_a(fastmode): pass\ndef test_b(): pass")
    result = pytester.runpytest_subprocess(*QUIET)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*unknown variable FASTMODE_COLOUR*"])
