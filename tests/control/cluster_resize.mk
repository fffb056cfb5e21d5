# Shares of running servers change.
$(call objects,tests/control/cluster_resize.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_cluster_resize: $(call objects,tests/control/cluster_resize.c) $(TESTS_CLUSTER_RIG) \
                                       $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS)) \
                                       | $(BIN)/flyt-cluster-manager
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)
TESTS += "env FLYT_TEST_CLUSTER_MANAGER=$(BIN)/flyt-cluster-manager $(BUILD)/tests/control_cluster_resize@sleeps"
