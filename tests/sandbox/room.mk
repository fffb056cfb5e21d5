# tests/sandbox: hostile code in place of a GPU server, inside the sandbox that the node manager makes.
$(call objects,tests/sandbox/sandbox.c): | $(CONTROL_COMMON_HEADERS)
# Never with a sanitizer: its run-time library would make calls of its own, and have a thread in each child.
$(BUILD)/tests/sandbox_hostile: tests/sandbox/hostile.c
	@mkdir -p $(@D)
	$(CC) $(filter-out -fsanitize=%,$(ALL_CFLAGS)) -o $@ $<
TESTS_SANDBOX_OBJECTS := $(call objects,tests/sandbox/sandbox.c tests/control/node_fake.c) \
                         $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))
$(BUILD)/tests/sandbox_sandbox: $(TESTS_SANDBOX_OBJECTS) $(BUILD)/tests/sandbox_hostile | \
                               $(BUILD)/tests/control_node_nvml.so $(BIN)/flyt-node-manager
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -lcmocka -lseccomp $(CONTROL_COMMON_LIBS)
TESTS += "$(BUILD)/tests/sandbox_sandbox $(BIN) $(BUILD)/tests/sandbox_hostile $(BUILD)/tests/control_node_nvml.so"

# Bounds by control groups, in a guest: this machine need not have them.
$(BUILD)/tests/sandbox_eater: $(call objects,tests/sandbox/eater.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^
$(call objects,tests/sandbox/bounds.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/sandbox_bounds: $(call objects,tests/sandbox/bounds.c) $(BUILD)/tests/sandbox_eater \
                               $(filter-out %/sandbox.o,$(TESTS_SANDBOX_OBJECTS)) | $(BIN)/flyt-node-manager
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -lcmocka $(CONTROL_COMMON_LIBS)
ifeq ($(FLAVOUR),plain)
test-programs: $(BUILD)/tests/sandbox_bounds
TESTS += "tests/sandbox/in_guest.py $(BIN) $(BUILD)/tests/sandbox_bounds $(BUILD)/tests/sandbox_eater@240"
endif
