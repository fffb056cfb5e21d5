# tests/rpc: the rpc layer with a service that needs no GPU (service.c).
TESTS_RPC_COMMON := $(call objects,tests/rpc/service.c tests/rpc/words.c) $(CPU_RPC_OBJECTS) $(TESTS_STUBS) \
                    $(CPU_RPC_TLS_OBJECTS) \
                    $(call objects,$(addprefix cpu/common/,clock.c env.c fd.c relayed.c))
TESTS_RPC_UNITS  := calls threads ring shm shm_peers bar peers callers roundtrip listeners loss tls waiting liveness
TESTS_RPC_BINARIES := $(addprefix $(BUILD)/tests/rpc_,$(TESTS_RPC_UNITS))

$(call objects,tests/rpc/service.c tests/rpc/words.c tests/rpc/certificates.c \
    $(addprefix tests/rpc/,$(addsuffix .c,$(TESTS_RPC_UNITS) latency))): | $(CPU_RPC_HEADERS)

$(BUILD)/tests/rpc_tls: $(call objects,tests/rpc/certificates.c)

# rpc_latency is a benchmark, built when asked for.
$(TESTS_RPC_BINARIES) $(BUILD)/tests/rpc_latency: $(BUILD)/tests/rpc_%: $(BUILD)/tests/rpc/%.o $(TESTS_RPC_COMMON)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CPU_RPC_LIBS) $(CPU_RPC_TLS_LIBS)

TESTS += $(call sleeping,rpc_liveness,$(TESTS_RPC_BINARIES)) tests/rpc/classes.sh tests/rpc/golden.sh
