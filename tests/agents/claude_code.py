"""Claude Code without a terminal: how it is pointed at a service, made fast, and what it prints.

After Claude Code 2.1's help and settings. In print mode fast mode is had by a setting on the command line; the variable
that spares an interactive one the question to api.anthropic.com is not needed for it.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from agent import Run, Said, Tier, Usage, execute
from task import PROMPT


class ClaudeCode:
    name = "Claude Code"
    models: Mapping[Tier, str] = {
        "standard": "claude-opus-5-5",
        "fast": "claude-opus-5-5",
        "spark": "gpt-5.3-codex-spark",
    }

    def __init__(self, program: Path) -> None:
        self._program = program

    def version(self) -> str:
        _, out, _ = execute([self._program, "--version"], {}, self._program.parent, self._program.parent)
        return out.split()[0] if out.split() else "unknown"

    def run(self, base_url: str, tier: Tier, home: Path, project: Path) -> Run:
        environ = {
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": "sk-any",
            "ANTHROPIC_MODEL": self.models[tier],
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
        }
        fast = ["--settings", json.dumps({"fastMode": True})] if tier == "fast" else []
        may = ["--permission-mode", "acceptEdits", "--allowedTools", "Read", "Edit", "Bash"]
        command = [self._program, "-p", PROMPT, "--output-format", "json", *fast, *may]
        code, out, err = execute(command, environ, home, project)
        return Run(code, _said(out), out + err)


def _said(printed: str) -> Said | None:
    """Prompt tokens are told apart by what the cache had to do with them; together they are the prompt."""
    try:
        result = json.loads(printed)
        usage = result["usage"]
        cached = usage["cache_read_input_tokens"]
        prompt = usage["input_tokens"] + usage["cache_creation_input_tokens"] + cached
        return Said(result["result"], Usage(prompt, cached, usage["output_tokens"]), result["total_cost_usd"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return None
