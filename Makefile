# slipcast. `make help` lists the targets. Users keep CC CFLAGS LDFLAGS PREFIX DESTDIR.

CC ?= cc
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
VERSION := 0.1.0

SC_CFLAGS := -std=gnu11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
             -Wmissing-prototypes -Wvla -Werror -ffp-contract=off
LIBS := -lcjson -lcrypto -lutf8proc -lm -lpthread -ldl
SANITIZE := -fno-sanitize-recover=all -fno-omit-frame-pointer

SC_CFLAGS_release :=
SC_CFLAGS_asan := -fsanitize=address,undefined $(SANITIZE)
SC_CFLAGS_tsan := -fsanitize=thread $(SANITIZE)
SC_CFLAGS_fuzz := -fsanitize=fuzzer-no-link,address,undefined $(SANITIZE)

# libFuzzer is clang's. SECONDS are shared out among the entries, one per reader.
FUZZ_CC ?= clang
SECONDS := $(if $(filter command line,$(origin SECONDS)),$(SECONDS),60)
FUZZERS := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

# codegen/embed.c is a tool of the build, codegen/main.c the program around the rest.
LIB_C := $(filter-out codegen/main.c codegen/embed.c,$(wildcard codegen/*.c codegen/families/*.c)) \
         $(wildcard runtime/*.c)
TEST_C := $(wildcard tests/*.c tests/support/*.c)
# Suites run side by side: the longest come first, so that none goes on alone at the end.
LONG := cuda casting cuda_sizes nvrtc gpu_check configs
SUITES := $(patsubst tests/check_%.c,%,$(sort $(wildcard tests/check_*.c)))
SUITES := $(LONG) $(filter-out $(LONG),$(SUITES))
GPU_CHECK_C := tests/bench/golden.c $(wildcard tests/bench/gpu_*.c)
STANDIN_C := $(filter-out %/nvrtc.c %/report.c,$(wildcard tests/cuda/*.c))
SOURCES := $(sort $(wildcard codegen/*.[ch] codegen/families/*.[ch]))
EMBEDDED := $(shell find templates runtime -type f ! -name '.*' ! -name '*~' | LC_ALL=C sort)

# What apt-get calls the things that we need. The -dev packages of pcre2 and utf8proc bring the
# shared libraries, whose own package names differ from one release to the next.
PACKAGES := gcc g++ make pkg-config libcjson-dev libssl-dev libpcre2-dev libutf8proc-dev
PC_MODULES := libcjson libcrypto libpcre2-8 libutf8proc

.DELETE_ON_ERROR:
.PHONY: all help setup setup-test test test-vocab check-asan check-tsan cuda-report gpu-check \
        fuzz bench lint clean install \
        demo FORCE
.DEFAULT_GOAL := all

all: build/slipcast ## build the program, build/slipcast

help: ## print this
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1#\2/p' Makefile | \
	    while IFS='#' read -r name what; do printf '%-18s %s\n' "$$name" "$$what"; done

# need MODULES,PACKAGES: nothing when all is there; else apt-get as root, or the line to type.
define need
@if ! { command -v $(firstword $(CC)) && command -v pkg-config && pkg-config --exists $(1); } \
    >/dev/null 2>&1; then \
    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
        echo "installing: $(2)"; \
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(2); } \
            >/dev/null && pkg-config --exists --print-errors $(1); \
    else \
        echo "something is missing; install it with:" >&2; \
        echo "sudo apt-get install $(2)" >&2; \
        exit 1; \
    fi; \
fi
endef

setup: ## install what the build needs (as root), or say how
	$(call need,$(PC_MODULES),$(PACKAGES))

setup-test: | setup
	$(call need,check,check)

# One flavour: its objects, its program, its tests. $(1) is release, asan or tsan.
define flavour
LIB_O_$(1) := $$(LIB_C:%.c=build/$(1)/%.o) build/$(1)/embedded.o
TEST_O_$(1) := $$(TEST_C:%.c=build/$(1)/%.o)

build/$(1)/%.o: %.c build/$(1)/flags | setup
	@mkdir -p $$(@D)
	$$(CC) $$(SC_CFLAGS) $$(CFLAGS) $$(SC_CFLAGS_$(1)) -MMD -MP -c $$< -o $$@

$$(TEST_O_$(1)): build/$(1)/tests/%.o: tests/%.c build/$(1)/suites.h build/$(1)/flags | setup-test
	@mkdir -p $$(@D)
	$$(CC) $$(SC_CFLAGS) $$(CFLAGS) $$(SC_CFLAGS_$(1)) -Ibuild/$(1) -MMD -MP -c $$< -o $$@

build/$(1)/embedded.o: build/$(1)/embedded.c
	$$(CC) $$(SC_CFLAGS) $$(CFLAGS) $$(SC_CFLAGS_$(1)) -MMD -MP -c $$< -o $$@

build/$(1)/embedded.c: build/embed build/$(1)/embedded.list $$(EMBEDDED) $$(SOURCES)
	build/embed $$(EMBEDDED) -- $$(SOURCES) >$$@

# Lists and flags are files that change only when their text does.
build/$(1)/embedded.list: FORCE
	$$(call keep,$$(EMBEDDED))
build/$(1)/flags: FORCE
	$$(call keep,$$(CC) $$(CFLAGS) $$(SC_CFLAGS) $$(SC_CFLAGS_$(1)))
build/$(1)/suites.h: FORCE
	$$(call keep,$$(foreach suite,$$(SUITES),SUITE($$(suite))))

build/$(1)/slipcast: build/$(1)/codegen/main.o $$(LIB_O_$(1))
	$$(CC) $$(CFLAGS) $$(SC_CFLAGS_$(1)) $$(LDFLAGS) $$^ $$(LIBS) -o $$@

build/$(1)/check: $$(TEST_O_$(1)) build/$(1)/tests/bench/golden.o $$(LIB_O_$(1))
	$$(CC) $$(CFLAGS) $$(SC_CFLAGS_$(1)) $$(LDFLAGS) $$^ $$$$(pkg-config --libs check) $$(LIBS) -o $$@

# What make gpu-check runs.
build/$(1)/gpu-check: $$(GPU_CHECK_C:%.c=build/$(1)/%.o) $$(LIB_O_$(1))
	$$(CC) $$(CFLAGS) $$(SC_CFLAGS_$(1)) $$(LDFLAGS) $$^ $$(LIBS) -o $$@

# The stand-in driver of tests/cuda/standin.h and its cuBLASLt, for the tests alone.
STANDIN_O_$(1) := $$(STANDIN_C:%.c=build/$(1)/%.o)

$$(STANDIN_O_$(1)): build/$(1)/tests/cuda/%.o: tests/cuda/%.c build/$(1)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(SC_CFLAGS) $$(CFLAGS) $$(SC_CFLAGS_$(1)) -fPIC -fvisibility=hidden -MMD -MP -c $$< -o $$@

build/$(1)/cuda/libcuda.so.1: $$(filter-out %/cublaslt.o,$$(STANDIN_O_$(1)))
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS) $$(SC_CFLAGS_$(1)) $$(LDFLAGS) -shared -Wl,-soname,$$(@F) $$^ -lpthread -ldl -o $$@

build/$(1)/cuda/libcublasLt.so.13: build/$(1)/tests/cuda/cublaslt.o build/$(1)/cuda/libcuda.so.1
	$$(CC) $$(CFLAGS) $$(SC_CFLAGS_$(1)) $$(LDFLAGS) -shared -Wl,-soname,$$(@F) \
	    -Wl,-rpath,'$$$$ORIGIN' $$^ -o $$@

-include $$(wildcard build/$(1)/*.d build/$(1)/*/*.d build/$(1)/*/*/*.d)
endef

define keep
@mkdir -p $(@D); printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' >$@
endef

$(foreach name,release asan tsan fuzz,$(eval $(call flavour,$(name))))

build/embed: codegen/embed.c | setup
	@mkdir -p $(@D)
	$(CC) $(SC_CFLAGS) -O1 $< -o $@

build/slipcast: build/release/slipcast
	cp $< $@

# The program of the same flavour, which the tests of the command find in SLIPCAST.
program = $(if $(wildcard codegen/main.c),build/$(1)/slipcast)
# What the tests of CUDA castings want of the same flavour.
standin = build/$(1)/cuda/libcublasLt.so.13 build/$(1)/gpu-check

test: build/release/check $(call program,release) $(call standin,release) ## build and run all tests
	SLIPCAST=build/release/slipcast CC='$(CC)' build/release/check

check-asan: build/asan/check $(call program,asan) $(call standin,asan) ## the tests under ASan and UBSan
	SLIPCAST=build/asan/slipcast CC='$(CC)' CK_FORK=no build/asan/check

check-tsan: build/tsan/check $(call program,tsan) $(call standin,tsan) ## the tests under TSan
	SLIPCAST=build/tsan/slipcast CC='$(CC)' CK_FORK=no build/tsan/check

build/fuzz/%: override CC := $(FUZZ_CC)

$(FUZZERS): build/fuzz/%: build/fuzz/tests/fuzz/%.o $(LIB_O_fuzz)
	$(CC) $(CFLAGS) -fsanitize=fuzzer,address,undefined $(LDFLAGS) $^ $(LIBS) -o $@

# What is new goes to build/fuzz/found; what breaks stays there too, for tests/fuzz/corpus.
fuzz: $(FUZZERS) ## feed the readers for SECONDS=60 (clang with libFuzzer)
	@for entry in $(FUZZERS); do \
	    name=$${entry##*/fuzz_}; mkdir -p build/fuzz/found/$$name; \
	    echo "$$name"; \
	    $$entry -max_total_time=$$(( ($(SECONDS) + $(words $(FUZZERS)) - 1) / $(words $(FUZZERS)) )) \
	        -timeout=10 -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1 \
	        -artifact_prefix=build/fuzz/found/$$name- \
	        build/fuzz/found/$$name tests/fuzz/corpus/$$name 2>build/fuzz/$$name.log || \
	        { tail -40 build/fuzz/$$name.log; exit 1; }; \
	    grep -E 'number_of_executed_units|peak_rss' build/fuzz/$$name.log || true; \
	done

build/release/cuda-report: build/release/tests/cuda/report.o build/release/tests/support/ptxas.o \
    $(LIB_O_release)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS) -o $@

# What llama.cpp ships with its source: vocabularies, texts, and the ids of these.
build/release/tokenize: build/release/tests/programs/tokenize.o $(LIB_O_release)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS) -o $@

build/release/tests/programs/%.o: tests/programs/%.c build/release/flags | setup
	@mkdir -p $(@D)
	$(CC) $(SC_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

test-vocab: build/release/tokenize ## GGUF vocabularies of llama.cpp's source package (fetched) against its ids
	tests/reference/check_vocabularies.py build/release/tokenize build/vocabularies

REPORT := tests/reference/tiny/* tests/reference/configs/llama-3.1-8b

cuda-report: build/release/cuda-report ## registers, shared bytes and spills of kernels, by NVRTC (REPORT=MODEL...)
	@for dtype in bfloat16 float32; do $< --dtype $$dtype $(REPORT) || exit; done

# GPU_CHECK holds more options of tests/bench/gpu_check.c: --bandwidth 4800, --nvcc nvcc.
GPU_CHECK_OUT ?= build/gpu-check.json

gpu-check: build/release/gpu-check build/slipcast ## goldens and speed on a GPU, into build/gpu-check.json (GPU_CHECK_OUT)
	$< --slipcast build/slipcast --work build/gpu-check --out '$(GPU_CHECK_OUT)' \
	    --commit "$$(git describe --always --dirty 2>/dev/null)" $(GPU_CHECK)

bench: build/slipcast ## measure against llama.cpp, add rows to docs/bench/
	tests/bench/run

lint: | setup-test ## clang-format, and clang's warnings
	clang-format --dry-run -Werror $$(find codegen runtime tests -name '*.[ch]')
	clang $(SC_CFLAGS) -fsyntax-only $(LIB_C) $(wildcard codegen/main.c) codegen/embed.c

demo: build/slipcast ## write on with the example model
	build/slipcast run examples/austen -p "It is a truth universally acknowledged" \
	    --max-new-tokens 80

install: build/slipcast ## into DESTDIR PREFIX, with slipcast.pc
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 755 build/slipcast $(DESTDIR)$(PREFIX)/bin/slipcast
	printf 'prefix=%s\nslipcast=$${prefix}/bin/slipcast\n\nName: slipcast\n%s\nVersion: %s\n' \
	    '$(PREFIX)' 'Description: exports language models to C' '$(VERSION)' \
	    >$(DESTDIR)$(PREFIX)/lib/pkgconfig/slipcast.pc

clean: ## remove build/
	rm -rf build
