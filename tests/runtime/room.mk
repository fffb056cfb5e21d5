# Tests of the CUDA Runtime libraries against a core without a server.
RUNTIME_TEST_DIR  := $(BUILD)/tests/runtime
RUNTIME_TEST_CORE := $(RUNTIME_TEST_DIR)/fake/libflyt-client.so

$(RUNTIME_TEST_CORE): $(BUILD)/tests/runtime/fake_core.o
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $^ -Wl,-soname,libflyt-client.so $(ALL_LDFLAGS)
