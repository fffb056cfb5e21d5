# VMs known by their address.
$(call objects,tests/control/cluster_address.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_cluster_address: $(call objects,tests/control/cluster_address.c) $(TESTS_CLUSTER_RIG) \
                                        $(CONTROL_DB_OBJECTS) $(CONTROL_COMMON_OBJECTS) | $(BIN)/flyt-cluster-manager
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS) $(CONTROL_DB_LIBS)
TESTS += "env FLYT_TEST_CLUSTER_MANAGER=$(BIN)/flyt-cluster-manager $(BUILD)/tests/control_cluster_address"
