# tests/sandbox: hostile code in place of a GPU server, inside the sandbox that the node manager makes.
$(call objects,tests/sandbox/sandbox.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/sandbox_hostile: $(call objects,tests/sandbox/hostile.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^
TESTS_SANDBOX_OBJECTS := $(call objects,tests/sandbox/sandbox.c tests/control/node_fake.c) \
                         $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))
$(BUILD)/tests/sandbox_sandbox: $(TESTS_SANDBOX_OBJECTS) $(BUILD)/tests/sandbox_hostile | $(BIN)/flyt-node-manager
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -lcmocka -lseccomp $(CONTROL_COMMON_LIBS)
# Sanitizers allow themselves more calls, and see more.
ifeq ($(FLAVOUR),plain)
TESTS += "$(BUILD)/tests/sandbox_sandbox $(BIN) $(BUILD)/tests/sandbox_hostile"
endif
