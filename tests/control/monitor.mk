# flyt-monitor, with Prometheus and a browser where they are.
TESTS += "tests/control/monitor.py $(BIN) $(BUILD)/tests/control_client_program@sleeps"
TESTS += "tests/control/monitor_roles.py $(BIN) $(BUILD)/tests/control_client_program@sleeps"
TESTS += "tests/control/monitor_tenant.py $(BIN) $(BUILD)/tests/control_client_program@sleeps"
LONG_TESTS += "tests/control/monitor.py $(BIN) $(BUILD)/tests/control_client_program all" \
              "tests/control/monitor_roles.py $(BIN) $(BUILD)/tests/control_client_program all"
test-programs run-long-tests: $(BUILD)/tests/control_client_program

# Its web side, without a cluster, with texts of a large one.
$(call objects,tests/control/monitor_web.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_monitor_web: $(call objects,tests/control/monitor_web.c \
    $(addprefix control-managers/monitor/,access.c connections.c metrics.c mirror.c streams.c texts.c web.c \
        web_tls.c)) $(CONTROL_ROWS_OBJECTS) $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS) -ljansson -lmicrohttpd -lgnutls -lpthread
TESTS += $(BUILD)/tests/control_monitor_web@sleeps

# What followers are told, without a cluster.
$(call objects,tests/control/cluster_follow.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_cluster_follow: $(call objects,tests/control/cluster_follow.c \
                                           control-managers/cluster-manager/follow.c) \
                                       $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)
TESTS += $(BUILD)/tests/control_cluster_follow

# The record of use, without a cluster and with a resource DB that is played.
USAGE_TESTS := $(addprefix $(BUILD)/tests/control_cluster_,usage usage_many)
USAGE_RIG   := $(call objects,tests/control/usage_rig.c \
                              $(addprefix control-managers/cluster-manager/,follow.c store.c usage.c usage_rows.c \
                                          usage_served.c usage_share.c))
$(call objects,$(addprefix tests/control/,usage_rig.c cluster_usage.c cluster_usage_many.c)): \
    | $(CONTROL_COMMON_HEADERS)
$(USAGE_TESTS): $(BUILD)/tests/control_%: $(BUILD)/tests/control/%.o $(USAGE_RIG) \
                                          $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)
TESTS += $(addsuffix @sleeps,$(USAGE_TESTS))
