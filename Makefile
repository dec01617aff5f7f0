# Thin targets over CMakePresets.json and tools/. `make help` lists them.

PREFIX ?= /usr/local
override PREFIX := $(patsubst ~/%,$(HOME)/%,$(PREFIX))
FUZZ_SECONDS ?= 60
MUTANTS ?= 5000
MUTANTS_EACH ?= 100
CMAKE_FLAGS ?=
export CMAKE_FLAGS

all: ## build the command, build/mica, and the libraries (what these cannot do without is installed)
	@tools/install-deps.sh build
	@tools/build release mica mica_static mica_shared

deps: ## install all packages that mica is built with, also the optional ones (takes root)
	@tools/install-deps.sh full

chat: ## build the command for this machine's processor, and talk with the model in models/
	@tools/install-deps.sh build
	@tools/build release --native mica
	@build/mica chat

test: ## the release build's tests, and under ASan and UBSan what parses and serves
	@tools/install-deps.sh test
	@tools/run_tests release asan

test-quick: ## the release build's tests but the slow ones (kernels on every instruction set): two minutes
	@tools/install-deps.sh test
	@tools/run_tests quick

check: ## all checks that there are (docs/checks.md), of which CI runs an eighth of the long ones: hours
	@MICA_TURN=all .ci/run

release-rest: ## the long tests of the release build, which make test leaves out
	@tools/install-deps.sh test
	@tools/run_tests release-rest

asan-rest: ## under ASan and UBSan what make test leaves out
	@tools/install-deps.sh test
	@tools/run_tests asan-rest

asan-models: ## under ASan and UBSan the tests of sessions, schedules, tasks, engines and training
	@tools/install-deps.sh test
	@tools/run_tests asan-models

asan-kernels: ## the tests of the kernels and of what calls them, all of it under ASan and UBSan
	@tools/install-deps.sh test
	@tools/run_tests asan-kernels

tsan: ## the tests labelled tsan, under ThreadSanitizer
	@tools/install-deps.sh test
	@tools/run_tests tsan

valgrind: ## the tests labelled valgrind, under Valgrind
	@tools/install-deps.sh check
	@tools/run_tests memcheck

qemu: ## the kernels of 64-bit ARM, and of AVX2 alone, under QEMU
	@tools/install-deps.sh check
	@tools/run_tests qemu

arm64: ## all of mica built for 64-bit ARM Linux, tests and golden answers run by QEMU (needs apt)
	@tools/install-deps.sh check
	@tools/run_tests arm64

packages: ## .deb packages and a .tar.gz for this machine and for arm64, in build/packages (needs apt)
	@tools/install-deps.sh check
	@tools/run_tests packages

reproducible: ## wheel, archive and .debs built in two folders and compared bit for bit
	@tools/install-deps.sh check
	@tools/check_reproducible

cuda: ## the kernels of the device cuda compiled for every GPU that they are for (fetches nvcc)
	@tools/install-deps.sh mlx
	@tools/run_tests cuda

macos: ## library and command linked for macOS, on arm64 and x86_64, and checked (needs apt)
	@tools/install-deps.sh check
	@tools/run_tests macos

windows: ## library and command linked for Windows, tests and golden answers run by Wine (needs apt)
	@tools/install-deps.sh check
	@tools/run_tests windows

cluster: ## examples/cluster with Ray, Spark, Dask, Slurm and others, routers, ranks over a network
	@tools/install-deps.sh test
	@tools/setup-cluster
	@tools/run_tests cluster

fuzz: ## each fuzz target for FUZZ_SECONDS (60)
	@tools/install-deps.sh check
	@tools/run_fuzz $(FUZZ_SECONDS)

mutants: ## MUTANTS (5000) changed folders, adapters, sessions; MUTANTS_EACH (100) of each model folder
	@tools/install-deps.sh test
	@tools/run_mutants $(MUTANTS) $(MUTANTS_EACH)

bench: ## rates of the default model, the programs of bench/, and other engines that are there (hours)
	@tools/install-deps.sh full
	@tools/build release -DMICA_BUILD_BENCH=ON bench
	@if [ -d build/peers/models ]; then bench/peers/compare.py --model qwen3-0.6b,gemma3-1b,llama3.2-1b \
	  --cases prefill:128,prefill:512,prefill:2048,decode:128,decode:64@2048,batch:64x1,batch:64x8,classify:32x4,first:8 \
	  --threads 1,2 --only '(mica|reading) 4bit$$|Q4_0-pure|openvino-int4$$'; \
	else echo "Other engines beside it: bench/peers/setup, then make bench again."; fi

docs: ## the pages of the public headers, in build/docs/html (needs doxygen)
	@tools/check_docs build/docs

wheel: all ## a wheel of the Python package for this machine, in build/wheels (docs/python.md)
	@python3 tools/make_wheel.py build build/wheels linux_$$(uname -m) --pages build/pages

portable: wheel ## a wheel and an archive for any Linux with glibc 2.28, checked and used (needs apt)
	@tools/install-deps.sh check
	@tools/portable

web: ## build the page of mica serve from web/ (needs Node)
	@tools/build-web

format: ## format all C and C++ files with clang-format 14
	@tools/install-deps.sh test
	@tools/format

install: all ## install under PREFIX (/usr/local), staged under DESTDIR
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)" > build/install.log || \
	  { tail -3 build/install.log; exit 1; }
	@echo "mica: installed under $(DESTDIR)$(PREFIX)"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) \
	  echo "mica: put it into your PATH: export PATH=$(PREFIX)/bin:\$$PATH";; esac

uninstall: ## remove from under PREFIX what make install puts there
	@DESTDIR="$(DESTDIR)" tools/uninstall build "$(PREFIX)"

clean: ## remove build/
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: all deps chat test test-quick check release-rest asan-rest asan-models asan-kernels tsan valgrind qemu arm64 packages reproducible macos windows cuda cluster fuzz mutants bench docs wheel portable web format install uninstall clean help
