# flyt-cluster-manager with scripted peers.
TESTS_CLUSTER_RIG := $(call objects,tests/control/cluster_rig.c tests/control/cluster_parties.c)
TESTS_CLUSTER_RIGGED := $(BUILD)/tests/control_cluster_manager $(BUILD)/tests/control_cluster_flood \
                        $(BUILD)/tests/control_cluster_views $(BUILD)/tests/control_cluster_values
$(TESTS_CLUSTER_RIG) $(call objects,$(addprefix tests/control/,cluster_manager.c cluster_flood.c cluster_views.c \
    cluster_values.c)): \
    | $(CONTROL_COMMON_HEADERS)
$(TESTS_CLUSTER_RIGGED): $(BUILD)/tests/control_%: $(BUILD)/tests/control/%.o $(TESTS_CLUSTER_RIG) \
                                         $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS)) \
                                         | $(BIN)/flyt-cluster-manager
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)

TESTS += $(foreach test,$(TESTS_CLUSTER_RIGGED),"env \
             FLYT_TEST_CLUSTER_MANAGER=$(BIN)/flyt-cluster-manager $(test)@sleeps")
test-programs: $(TESTS_CLUSTER_RIGGED)

# Placement by itself.
TESTS_CLUSTER_PLACE := $(BUILD)/tests/control_cluster_place $(BUILD)/tests/control_cluster_gang
$(call objects,$(addprefix tests/control/,cluster_place.c cluster_gang.c)): | $(CONTROL_COMMON_HEADERS)
$(TESTS_CLUSTER_PLACE): $(BUILD)/tests/control_%: $(BUILD)/tests/control/%.o $(call objects,\
    $(addprefix control-managers/cluster-manager/,place.c place_gang.c place_set.c schema.c)) \
    $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)
TESTS += $(TESTS_CLUSTER_PLACE)

# What goes on in slices, by itself.
$(call objects,tests/control/cluster_slices.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_cluster_slices: $(call objects,tests/control/cluster_slices.c $(addprefix \
    control-managers/cluster-manager/,balance.c place.c place_gang.c place_set.c policy.c queue.c retry.c) \
    control-managers/common/map.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka
TESTS += $(BUILD)/tests/control_cluster_slices

TESTS_CLUSTER_SCALE := $(call objects,$(addprefix tests/control/,cluster_scale.c cluster_meter.c))
$(TESTS_CLUSTER_SCALE): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_cluster_scale: $(TESTS_CLUSTER_SCALE) $(TESTS_CLUSTER_RIG) \
                                      $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS)) \
                                      | $(BIN)/flyt-cluster-manager $(BIN)/flytctl $(BIN)/flyt-monitor
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)
TESTS      += "env FLYT_TEST_CLUSTER_MANAGER=$(BIN)/flyt-cluster-manager $(BUILD)/tests/control_cluster_scale 20 300" \
              "env FLYT_TEST_CLUSTER_MANAGER=$(BIN)/flyt-cluster-manager $(BUILD)/tests/control_cluster_scale 5 160"
LONG_TESTS += "env FLYT_TEST_CLUSTER_MANAGER=$(BIN)/flyt-cluster-manager \
    $(BUILD)/tests/control_cluster_scale 1000 20000"
test-programs run-long-tests: $(BUILD)/tests/control_cluster_scale
