# The line of programs that wait, idle servers that stand in its way, nodes on which servers do not start,
# drained ones, ones that cannot be reached, why a use of a GPU ended, and programs that want several GPUs.
TESTS_CLUSTER_LINE := $(addprefix $(BUILD)/tests/control_cluster_,line idle sick drain unreached reasons gangs)
$(call objects,$(foreach t,line idle sick drain unreached reasons gangs,tests/control/cluster_$t.c)): \
    | $(CONTROL_COMMON_HEADERS)
$(TESTS_CLUSTER_LINE): $(BUILD)/tests/control_%: $(BUILD)/tests/control/%.o $(TESTS_CLUSTER_RIG) \
                       $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS)) | $(BIN)/flyt-cluster-manager
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -lcmocka $(CONTROL_COMMON_LIBS)
TESTS += $(foreach test,$(TESTS_CLUSTER_LINE),"env FLYT_TEST_CLUSTER_MANAGER=$(BIN)/flyt-cluster-manager $(test)")
