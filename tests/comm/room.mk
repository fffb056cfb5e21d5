# tests/comm: communication without CUDA. All over loopback, or in network namespaces that the tests make.
TESTS_COMM_BINARIES := $(addprefix $(BUILD)/tests/comm_,store)

$(call objects,$(wildcard tests/comm/*.c)): | $(CPU_RPC_HEADERS)

$(TESTS_COMM_BINARIES): $(BUILD)/tests/comm_%: $(BUILD)/tests/comm/%.o $(CPU_COMM_OBJECTS) $(CPU_COMM_NEEDS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CPU_COMM_LIBS)

TESTS += $(TESTS_COMM_BINARIES)
