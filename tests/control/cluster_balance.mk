# Policies: which programs should move, by itself, and in whole clusters.
$(call objects,tests/control/cluster_balance.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_cluster_balance: $(call objects,tests/control/cluster_balance.c \
    control-managers/cluster-manager/balance.c control-managers/cluster-manager/place.c \
    control-managers/cluster-manager/place_gang.c) \
    $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)
TESTS += $(BUILD)/tests/control_cluster_balance
$(call objects,tests/control/cluster_policy.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_cluster_policy: $(call objects,tests/control/cluster_policy.c) $(TESTS_CLUSTER_RIG) \
                                       $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS)) \
                                       | $(BIN)/flyt-cluster-manager
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)
TESTS += "env FLYT_TEST_CLUSTER_MANAGER=$(BIN)/flyt-cluster-manager $(BUILD)/tests/control_cluster_policy@sleeps"
