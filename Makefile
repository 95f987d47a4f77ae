# `make help` lists the commands. Everything they need is made by them: .venv here, the rest in the user's cache.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help demo reproduce benchmark bench-engine bench-learning bench-learning-engine bench-operator bench-slo bench-turns bench-adversaries bench-fleet test mutate e2e lint format crds docs picture lock seam clean cluster engine pytest

PYTHON_BIN := .venv/bin/python
LOCK := .venv/bin/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 23

demo: .venv/.synced ## The main job on this machine; MODEL=FOLDER_OR_NAME for a real model, DEMO_ARGS= for its options
	.venv/bin/justitia demo $(if $(MODEL),--model '$(MODEL)') $(DEMO_ARGS)

reproduce: .venv/.synced ## The papers' evaluations again, into docs/results; QUICK=1 for a look, REPRODUCE_ARGS= for its options
	$(PYTHON_BIN) -m justitia_benchmarks $(if $(QUICK),--quick) $(REPRODUCE_ARGS)

benchmark: .venv/.synced ## How long each policy takes for a decision and a predictor for a run, and how fast the simulator is; into docs/results
	$(PYTHON_BIN) -m justitia_benchmarks.speed --out docs/results/speed.md $(BENCHMARK_ARGS)
	$(PYTHON_BIN) -m justitia_benchmarks.simulation_speed --out docs/results/simulation-speed.md
	$(PYTHON_BIN) -m justitia_benchmarks.prediction_speed --out docs/results/prediction-speed.md

bench-engine: .venv/.synced engine ## Policies inside a real vLLM and in front of it, into docs/results; QUICK=1 for a look. Leave the machine alone
	$(PYTHON_BIN) -m justitia_benchmarks.engine $(if $(QUICK),--quick)

bench-learning: .venv/.synced ## What predictors of runs' costs are worth, in simulation, into docs/results/learning; QUICK=1 for a look
	$(PYTHON_BIN) -m justitia_benchmarks.learning $(if $(QUICK),--quick)

bench-learning-engine: .venv/.synced engine ## Predictors learned from runs on a real vLLM, and what they are worth there, into docs/results; QUICK=1 for a look. Leave the machine alone
	$(PYTHON_BIN) -m justitia_benchmarks.engine_learning $(if $(QUICK),--quick)

bench-operator: .venv/.synced cluster ## The operator with 1,000 applications on simulated nodes, into docs/results; QUICK=1 for a look
	PYTHONPATH=tests $(PYTHON_BIN) -m justitia_benchmarks.operator $(if $(QUICK),--quick)

bench-adversaries: .venv/.synced engine ## A paying tenant on a real vLLM beside all adversaries at once, 40 minutes, into docs/results; QUICK=1 for a look. Leave the machine alone
	$(PYTHON_BIN) -m justitia_benchmarks.adversaries $(if $(QUICK),--quick) $(ADVERSARIES_ARGS)

bench-slo: .venv/.synced ## Gamma moved by objectives: step responses in simulation, into docs/results/slo; QUICK=1 for a look
	$(PYTHON_BIN) -m justitia_benchmarks.slo $(if $(QUICK),--quick)

bench-turns: .venv/.synced ## Sessions of agents that take turns, with prefix cache and KV kept in pauses, in simulation, into docs/results/turns.md
	$(PYTHON_BIN) -m justitia_benchmarks.turns --out docs/results/turns.md $(BENCHMARK_ARGS)

bench-fleet: .venv/.synced ## Pools of several engines: ways to share, in simulation, and real sidecars that share over Valkey; into docs/results; QUICK=1 for a look. Leave the machine alone
	$(PYTHON_BIN) -m justitia_benchmarks.fleet_simulation $(if $(QUICK),--quick,--out docs/results/fleet-simulation.md)
	$(PYTHON_BIN) -m justitia_benchmarks.fleet_prefixes $(if $(QUICK),--quick,--out docs/results/fleet-prefixes.md)
	$(PYTHON_BIN) -m justitia_benchmarks.fleet_log $(if $(QUICK),--quick,--out docs/results/fleet-log.md)
	$(PYTHON_BIN) -m justitia_benchmarks.fleet_live $(if $(QUICK),--quick,--out docs/results/fleet.md)

test: pytest ## All checks: format, lint, types, import contracts, every test; PYTEST_ARGS=--nightly for more examples

# Four processes, since most tests wait for something: each has a control plane and engines of its own, which take one core
# each (tests/conftest.py). Modules come in the order of their names, so that the long ones begin first. Tests that measure times
# go alone, afterwards.
pytest: lint cluster engine
	$(PYTHON_BIN) -m pytest -m 'not alone' --numprocesses=4 --dist=loadscope --no-loadscope-reorder $(PYTEST_ARGS)
	$(PYTHON_BIN) -m pytest -m alone tests/engine $(PYTEST_ARGS)

mutate: .venv/.synced ## Whether tests notice changes of the modules that decide, into out/mutation; MUTATE=PATH for a module or folder. Goes on where it was stopped
	nice $(PYTHON_BIN) tools/mutate.py $(MUTATE)

# E2E_ARGS= for pytest. A KUBECONFIG of the environment is not meant: whose cluster it is has to be said.
e2e: .venv/.synced ## What users do, on a real Kubernetes node on this machine (Debian, as root, 20 GB of disk); KUBECONFIG= CONTEXT= for a cluster of yours
	$(PYTHON_BIN) -m pytest e2e $(if $(filter command,$(origin KUBECONFIG)),--kubeconfig='$(KUBECONFIG)') \
		$(if $(CONTEXT),--context='$(CONTEXT)') $(E2E_ARGS)

lint: .venv/.synced ## The quick checks: format, lint, types, import contracts
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: .venv/.synced ## Format and repair what can be repaired
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

crds: .venv/.synced ## Write the resource definitions from the types, for kubectl and for the chart
	$(PYTHON_BIN) -m justitia_api.crd crds
	mkdir -p charts/justitia/files/crds
	cp crds/*.yaml charts/justitia/files/crds/

docs: .venv/.synced ## Build the documentation site into out/site, without warnings and without the network
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
	@echo "out/site/index.html; \`.venv/bin/python -m http.server --directory out/site\` serves it with its search"

picture: .venv/.synced ## Draw the picture of README.md again, from a simulation with a fixed seed
	$(PYTHON_BIN) -m justitia_docs.first_token docs/assets/first-token.svg

lock: .venv/.synced ## Renew the lock files from what pyproject.toml and locks/*.in ask for
	$(LOCK) --universal --all-extras --group dev --group docs --group mutation pyproject.toml --output-file locks/dev.txt >/dev/null
	$(LOCK) --universal --extra operator --extra sidecar --extra picker --extra training pyproject.toml --output-file locks/image.txt >/dev/null
	$(LOCK) --universal locks/build.in --output-file locks/build.txt >/dev/null
	$(LOCK) --universal --overrides locks/engine-cpu-overrides.in locks/engine-cpu.in \
		--output-file cli/justitia_cli/locks/engine-cpu.txt >/dev/null
	$(LOCK) --python-platform x86_64-manylinux_2_28 locks/engine-cuda.in \
		--output-file cli/justitia_cli/locks/engine-cuda.txt >/dev/null

seam: .venv/.synced ## Whether the newest vLLM still has what our scheduler relies on
	tools/check_newest_vllm.sh

clean: ## Remove what the commands made here (not the user's cache)
	rm -rf .venv .cache out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Programs of a control plane, for the tests against a real API server.
cluster: .venv/.synced
	$(PYTHON_BIN) tests/cluster/build.py

# vLLM, for the tests against a real engine.
engine: .venv/.synced
	$(PYTHON_BIN) tools/prepare_engine.py

.venv/.synced: locks/dev.txt pyproject.toml tools/environment.sh
	@tools/environment.sh
