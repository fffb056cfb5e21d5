# What flytctl prints: its own objects, with a cluster manager of a few lines in place of the connection.
TESTS_CANNED_OBJECTS = $(filter-out %/flytctl/session.o,$(FLYTCTL_OBJECTS))
$(call objects,tests/control/flytctl_canned.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/flytctl-canned: $(call objects,tests/control/flytctl_canned.c) $(TESTS_CANNED_OBJECTS) \
    $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS)) $(CONTROL_ROWS_OBJECTS) $$(CPU_CHECKPOINT_OBJECTS) \
    $(call objects,cpu/code/hash.c) $(FLYTCTL_COMM)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ $(CONTROL_COMMON_LIBS) -ljansson -lyaml $(CPU_CHECKPOINT_LIBS) -lm -o $@
TESTS += "tests/control/forms.py $(BUILD)/tests/flytctl-canned"
test-programs: $(BUILD)/tests/flytctl-canned
