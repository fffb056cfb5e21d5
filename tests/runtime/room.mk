# Tests of the CUDA Runtime libraries against a core without a server.
RUNTIME_TEST_DIR  := $(BUILD)/tests/runtime
RUNTIME_TEST_CORE := $(RUNTIME_TEST_DIR)/fake/libflyt-client.so
RUNTIME_TEST_NAMES := runtime device stream memory code

$(RUNTIME_TEST_CORE): $(BUILD)/tests/runtime/fake_core.o
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $^ -Wl,-soname,libflyt-client.so $(ALL_LDFLAGS)

# $(1): 11, 12 or 13. One program per version, of the library's own objects and the fake core.
define RUNTIME_TEST_RULES
$(RUNTIME_TEST_DIR)-$(1)/%.o: tests/runtime/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) -DFLYT_CUDART=$(1) -MMD -MP -c $$< -o $$@

$(BUILD)/tests/runtime-api-$(1): $(RUNTIME_TEST_NAMES:%=$(RUNTIME_TEST_DIR)-$(1)/%.o) $(BUILD)/tests/runtime/fake_core.o \
                                 $(call runtime_objects,$(1)) $(BUILD)/cudart-$(1)/stubs.o
	$$(CC) -o $$@ $$^ -lcmocka $$(ALL_LDFLAGS)

TESTS += $(BUILD)/tests/runtime-api-$(1)
endef
$(foreach v,$(RUNTIME_VERSIONS),$(eval $(call RUNTIME_TEST_RULES,$(v))))
