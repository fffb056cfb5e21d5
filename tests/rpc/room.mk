# tests/rpc: the rpc layer with a service that needs no GPU (service.c).
TESTS_RPC_COMMON := $(call objects,tests/rpc/service.c) $(CPU_RPC_OBJECTS) $(CPU_RPC_CLIENT_OBJECTS) \
                    $(CPU_RPC_SERVER_OBJECTS) $(call objects,cpu/common/clock.c)
TESTS_RPC_UNITS  := calls threads peers roundtrip listeners
TESTS_RPC_BINARIES := $(addprefix $(BUILD)/tests/rpc_,$(TESTS_RPC_UNITS))

$(call objects,tests/rpc/service.c $(addprefix tests/rpc/,$(addsuffix .c,$(TESTS_RPC_UNITS)))): | $(CPU_RPC_HEADERS)

$(TESTS_RPC_BINARIES): $(BUILD)/tests/rpc_%: $(BUILD)/tests/rpc/%.o $(TESTS_RPC_COMMON)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CPU_RPC_LIBS)

TESTS += $(TESTS_RPC_BINARIES) tests/rpc/classes.sh tests/rpc/golden.sh
