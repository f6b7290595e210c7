# `make up` runs the service, `make test` and `make check` judge it, `make lock` refreshes the locked requirements.
# Everything lands in .venv; remove it with `make clean`.
#
#   make up PORT=8001 HOST=0.0.0.0 CATALOG=my.toml PROFILE=2026-08 GATEWAYS=2

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
LOCK := uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11
# Only what is said on make's own command line: HOST and PORT in an environment usually mean something else.
said = $(if $(findstring command,$(origin $(1))),$(2) "$($(1))")

.PHONY: up test check lock bench tiers agents conformance money acceptance clean
.DELETE_ON_ERROR:

up: .venv/runs
	@exec $(BIN)/fastmode up --follow-parent \
		$(call said,HOST,--host) $(call said,PORT,--port) $(call said,CATALOG,--catalog) $(call said,PROFILE,--profile) $(call said,GATEWAYS,--gateways)

# Tests that only compute share the cores, and so do those that only ask; those that watch clocks, or processes of a
# service as they come and go, have the machine for themselves.
COMPUTING := tests/conformance/test_grammar.py tests/simulation tests/planning tests/service tests/test_tidy.py \
	$(addprefix tests/loadtests/,test_wire.py test_vocabulary.py test_scenario.py test_summary.py test_worth.py test_result.py) \
	$(addprefix tests/workers/,test_content.py test_content_answers.py test_content_calls.py test_content_mistakes.py \
	test_content_phrases.py test_content_schemas.py test_content_stops.py test_intake.py test_pacing.py test_recorded.py test_replicas.py)
WATCHING := tests/agents tests/loadtests/test_calibrate.py tests/loadtests/test_processes.py \
	$(addprefix tests/gateway/,test_bands.py test_contract_rates.py test_drain.py test_failures.py test_leaving.py test_messages_waiting.py \
	test_relay.py test_stalling.py test_waiting.py) \
	$(addprefix tests/workers/,test_emulated.py test_failover.py test_real_time.py test_runner.py test_runner_slots.py)

test: .venv/tests
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	$(BIN)/python -m pytest -n 2 --dist worksteal $(COMPUTING)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(addprefix --ignore=,$(COMPUTING) $(WATCHING))
	$(BIN)/python -m pytest $(WATCHING)
endif

check: .venv/tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/tests
	$(BIN)/python -m loadtests.bench $(ARGS)

# Do tiers, accounts and bands get what they were sold when all want more than there is? Three minutes.
tiers: .venv/tests
	$(BIN)/python -m loadtests.bench --only tiers $(ARGS)

# Real agents from npm (700 MB, installed once, outside of the tree) do a scripted task with the service.
AGENTS_DIR ?= $(HOME)/.cache/fastmode-agents
CODEX := 0.171.0
CLAUDE_CODE := 2.1.332
AGENTS := $(AGENTS_DIR)/codex-$(CODEX)-claude-code-$(CLAUDE_CODE)

agents: .venv/tests $(AGENTS)
	AGENTS_DIR="$(AGENTS_DIR)" $(if $(ARGS),,AGENTS_TABLE=docs/agents.md) $(BIN)/python -m pytest -s tests/agents $(ARGS)

$(AGENTS):
	@command -v npm >/dev/null || { echo "npm is not found: the agents come from there" >&2; exit 1; }
	@echo "installing agents into $(AGENTS_DIR)"
	@npm install --prefix "$(AGENTS_DIR)" --no-audit --no-fund --loglevel=error \
		@openai/codex@$(CODEX) @anthropic-ai/claude-code@$(CLAUDE_CODE)
	@touch "$@"

# Official clients of several generations, each in an environment of its own, and everything that looks longer than tests do.
conformance: .venv/tests
	PYTHONPATH=tests $(BIN)/python tests/conformance/matrix.py .venv/conformance $(ARGS)

# Ten thousand requests of every kind, and every nano-dollar of them accounted for.
money: .venv/tests
	MIXED=10000 $(BIN)/python -m pytest -s tests/gateway/test_money.py $(ARGS)

# Other people's load clients, each in an environment of its own, see what ours does and what is planned.
acceptance: .venv/tests
	$(BIN)/python -m loadtests.acceptance .venv/acceptance

# Two locks from one resolution: the second is the first and what tests and checks need beside it.
lock:
	$(LOCK) pyproject.toml --extra build $(UPGRADE) -o requirements.lock
	$(LOCK) pyproject.toml --extra build --extra dev $(UPGRADE) -c requirements.lock -o requirements-dev.lock

clean:
	rm -rf .venv dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not found: install Python 3.11 or later, or name it: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$$($(PYTHON) --version) is too old: Python 3.11 or later is needed; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

# The stamps are newer than what they were made from, so a second start installs nothing.
.venv/runs: requirements.lock pyproject.toml | .venv/bin/python
	@echo "installing the locked requirements into .venv"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

.venv/tests: .venv/runs requirements-dev.lock
	@echo "installing what tests and checks need into .venv"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@
