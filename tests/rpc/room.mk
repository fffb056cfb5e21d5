# tests/rpc: the rpc layer with a service that needs no GPU (service.c).
TESTS_RPC_COMMON := $(call objects,tests/rpc/service.c tests/rpc/words.c) $(CPU_RPC_OBJECTS) $(CPU_RPC_CLIENT_OBJECTS) \
                    $(CPU_RPC_SERVER_OBJECTS) $(CPU_RPC_TLS_OBJECTS) $(call objects,cpu/common/clock.c cpu/common/env.c cpu/common/fd.c)
TESTS_RPC_UNITS  := calls threads ring shm shm_peers bar peers callers roundtrip listeners loss tls waiting liveness
TESTS_RPC_BINARIES := $(addprefix $(BUILD)/tests/rpc_,$(TESTS_RPC_UNITS))

$(call objects,tests/rpc/service.c tests/rpc/words.c $(addprefix tests/rpc/,$(addsuffix .c,$(TESTS_RPC_UNITS) latency))): | $(CPU_RPC_HEADERS)

# rpc_latency is a benchmark, built when asked for.
$(TESTS_RPC_BINARIES) $(BUILD)/tests/rpc_latency: $(BUILD)/tests/rpc_%: $(BUILD)/tests/rpc/%.o $(TESTS_RPC_COMMON)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CPU_RPC_LIBS) $(CPU_RPC_TLS_LIBS)

TESTS += $(call sleeping,rpc_liveness,$(TESTS_RPC_BINARIES)) tests/rpc/classes.sh tests/rpc/golden.sh

# Fuzz targets are built by clang whatever CC is, all sources at once: objects of other flavours are of no use. Where
# clang has no libFuzzer, a note takes the program's place, and the test is skipped.
FUZZ_CC    ?= clang
FUZZ_FLAGS := -g1 -O1 -std=c11 -D_GNU_SOURCE -pthread -fsanitize=fuzzer,address,undefined \
              -fprofile-instr-generate -fcoverage-mapping \
              -fno-sanitize-recover=undefined -fno-sanitize=function -I. -I$(BUILD)/generated \
              -I$(CPU_RPC_GENERATED) -isystem /usr/include/tirpc -w
TESTS_FUZZ_LINK = @mkdir -p $(@D); \
    if echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && !n; }' | \
       $(FUZZ_CC) -fsanitize=fuzzer,address,undefined -x c - -o $@ 2>/dev/null; \
    then echo "$(FUZZ_CC) $(FUZZ_FLAGS) -o $@"; $(FUZZ_CC) $(FUZZ_FLAGS) -o $@ $(filter %.c,$^) $(1); \
    else echo 'no libFuzzer' > $@; fi

$(BUILD)/fuzz/rpc: tests/fuzz/rpc.c $(filter-out cpu/rpc/tls/channel_tls.c cpu/rpc/tls/tls_context.c cpu/rpc/tls/tls_identity.c,$(wildcard cpu/rpc/*.c cpu/rpc/*/*.c)) cpu/common/clock.c cpu/common/env.c cpu/common/fd.c \
                   cpu/common/wire.c $(CPU_RPC_GENERATED)/cpu_rpc_prot_xdr.c \
                   $(CPU_RPC_GENERATED)/cpu_rpc_prot_svc.c $(wildcard cpu/rpc/*.h cpu/rpc/*/*.h) $(CPU_RPC_HEADERS)
	$(call TESTS_FUZZ_LINK,$(CPU_RPC_LIBS))
FUZZ_RPC_SOURCES := $(filter-out $(addprefix cpu/rpc/tls/,channel_tls.c tls_context.c tls_identity.c), \
                                 $(wildcard cpu/rpc/*.c cpu/rpc/*/*.c)) \
                    $(addprefix cpu/common/,clock.c env.c fd.c log.c wire.c)
$(BUILD)/fuzz/lanes: tests/fuzz/lanes.c cpu/server/lanes_in.c $(FUZZ_RPC_SOURCES) \
                     $(CPU_RPC_GENERATED)/cpu_rpc_prot_xdr.c $(wildcard cpu/server/*.h cpu/rpc/*.h cpu/rpc/*/*.h) $(CPU_RPC_HEADERS) | $(API_INCLUDED)
	$(call TESTS_FUZZ_LINK,-isystem $(CUDA_INCLUDE) $(CPU_RPC_LIBS))
$(BUILD)/fuzz/fatbin: tests/fuzz/fatbin.c cpu/code/fatbin.c cpu/code/fatbin.h
	$(call TESTS_FUZZ_LINK,$(CPU_CODE_LIBS))
$(BUILD)/fuzz/seeds/fatbin: $(BUILD)/tests/code_fatbin
	@mkdir -p $@
	$< --seeds $@

TESTS_FUZZ_RUN := tests/fuzz/rpc_fatbin_run.sh
TESTS      += "$(TESTS_FUZZ_RUN) $(BUILD)/fuzz/rpc 3 $(BUILD)/fuzz/corpus/rpc tests/fuzz/seeds/rpc.tar.gz" \
              "$(TESTS_FUZZ_RUN) $(BUILD)/fuzz/lanes 3 $(BUILD)/fuzz/corpus/lanes tests/fuzz/seeds/lanes.tar.gz" \
              "$(TESTS_FUZZ_RUN) $(BUILD)/fuzz/fatbin 3 $(BUILD)/fuzz/corpus/fatbin $(BUILD)/fuzz/seeds/fatbin"
LONG_TESTS += "$(TESTS_FUZZ_RUN) $(BUILD)/fuzz/rpc 300 $(BUILD)/fuzz/corpus/rpc tests/fuzz/seeds/rpc.tar.gz" \
              "$(TESTS_FUZZ_RUN) $(BUILD)/fuzz/lanes 300 $(BUILD)/fuzz/corpus/lanes tests/fuzz/seeds/lanes.tar.gz" \
              "$(TESTS_FUZZ_RUN) $(BUILD)/fuzz/fatbin 300 $(BUILD)/fuzz/corpus/fatbin $(BUILD)/fuzz/seeds/fatbin"
