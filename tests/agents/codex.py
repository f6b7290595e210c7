"""Codex without a terminal: the configuration that points it at a service, over HTTP or WebSocket, and what it prints.

After Codex 0.171's configuration. It sends a service tier for a model only if its list of models says that the model
has one. The list it ships has dropped GPT-5.3-Codex and Spark, so it is given one with them; for newer models, which
it speaks to in another way ("code mode": one tool, that runs JavaScript), its own will do.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from agent import Run, Said, Tier, Usage, execute
from task import PROMPT

_PATTERN = "gpt-5.5"  # of the models it ships, one that is spoken to like the older ones
_FAST = {"id": "priority", "name": "Fast", "description": "Faster, at a higher price"}


_OLDER: Mapping[Tier, str] = {"standard": "gpt-5.3-codex", "fast": "gpt-5.3-codex", "spark": "gpt-5.3-codex-spark"}
_NEWER: Mapping[Tier, str] = {"standard": "gpt-6.1-sol", "fast": "gpt-6.1-sol"}


class Codex:
    def __init__(self, program: Path, *, websocket: bool, code_mode: bool = False) -> None:
        self.name = f"Codex{', code mode' if code_mode else ''}, {'WebSocket' if websocket else 'HTTP'}"
        self.models = _NEWER if code_mode else _OLDER
        self._program = program
        self._websocket = websocket

    def version(self) -> str:
        _, out, _ = execute([self._program, "--version"], {}, self._program.parent, self._program.parent)
        return out.split()[-1] if out.split() else "unknown"

    def run(self, base_url: str, tier: Tier, home: Path, project: Path) -> Run:
        settings = home / ".codex"
        settings.mkdir()
        (settings / "config.toml").write_text(self._config(base_url, tier, self._listed(settings)))
        may = (
            "--dangerously-bypass-approvals-and-sandbox"  # script.toml is all it will do; sandboxes are not everywhere
        )
        command = [self._program, "exec", "--json", "--skip-git-repo-check", may, PROMPT]
        code, out, err = execute(command, {"ANY_KEY": "sk-any"}, home, project)
        return Run(code, _said(out), out + err)

    def _config(self, base_url: str, tier: Tier, models: Path | None) -> str:
        lines = [
            f'model = "{self.models[tier]}"',
            'model_provider = "fastmode"',
            *([f'model_catalog_json = "{models}"'] if models else []),
            *(['service_tier = "fast"'] if tier == "fast" else []),
            "[model_providers.fastmode]",
            'name = "fastmode"',
            f'base_url = "{base_url}/v1"',
            'env_key = "ANY_KEY"',
            'wire_api = "responses"',
            f"supports_websockets = {str(self._websocket).lower()}",
        ]
        return "\n".join(lines) + "\n"

    def _listed(self, settings: Path) -> Path | None:
        """A list of models, made of one of those that Codex prints; None: its own will do."""
        if self.models is not _OLDER:
            return None
        _, out, _ = execute([self._program, "debug", "models"], {}, settings.parent, settings)
        pattern = next(model for model in json.loads(out)["models"] if model["slug"] == _PATTERN)
        full, spark = self.models["standard"], self.models["spark"]
        models = [
            {**pattern, "slug": full, "display_name": full, "service_tiers": [_FAST]},
            {**pattern, "slug": spark, "display_name": spark, "service_tiers": [], "input_modalities": ["text"]},
        ]
        path = settings / "models.json"
        path.write_text(json.dumps({"models": models}))
        return path


def _said(printed: str) -> Said | None:
    """It prints an event a line; messages come as items, the usage of all requests at the end of the turn."""
    words, usage = "", None
    for line in printed.splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if event.get("type") == "item.completed" and event["item"]["type"] == "agent_message":
            words = event["item"]["text"]
        if event.get("type") == "turn.completed":
            told = event["usage"]
            usage = Usage(told["input_tokens"], told["cached_input_tokens"], told["output_tokens"])
    return None if usage is None else Said(words, usage)
