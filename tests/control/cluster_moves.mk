# Programs that move: the states alone, and whole clusters.
$(call objects,tests/control/cluster_moves.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_cluster_moves: $(call objects,tests/control/cluster_moves.c \
                                      control-managers/cluster-manager/moves.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka
TESTS += $(BUILD)/tests/control_cluster_moves
TESTS_CLUSTER_MOVING := $(addprefix $(BUILD)/tests/control_cluster_,moving paced links)
$(call objects,$(foreach t,moving paced links,tests/control/cluster_$t.c)): | $(CONTROL_COMMON_HEADERS)
$(TESTS_CLUSTER_MOVING): $(BUILD)/tests/control_%: $(BUILD)/tests/control/%.o $(TESTS_CLUSTER_RIG) \
                         $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS)) | $(BIN)/flyt-cluster-manager
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)
TESTS += $(foreach t,$(TESTS_CLUSTER_MOVING),"env FLYT_TEST_CLUSTER_MANAGER=$(BIN)/flyt-cluster-manager $t@sleeps")
$(BUILD)/tests/control_moves: tests/control/moves.py tests/lib/testlib.py build/cuda/moved \
    | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/moves.py $(BIN) build/cuda/moved)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_moves@sleeps)
LONG_TESTS += "$(BUILD)/tests/control_moves all@sleeps"
$(BUILD)/tests/control_moves_paced: $(addprefix tests/control/,moves_paced.py moves.py old_manager.py wire.py) \
    tests/lib/testlib.py build/cuda/moved \
    | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/moves_paced.py $(BIN) build/cuda/moved)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_moves_paced@sleeps)
$(BUILD)/tests/control_moves_killed: tests/control/moves_killed.py tests/control/moves.py tests/lib/testlib.py \
    build/cuda/moved | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/moves_killed.py $(BIN) build/cuda/moved)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_moves_killed@sleeps)
LONG_TESTS += "$(BUILD)/tests/control_moves_killed all@sleeps" "$(BUILD)/tests/control_moves_killed stops@sleeps"
$(BUILD)/tests/control_groups: $(addprefix tests/control/,groups.py moves_killed.py moves.py) tests/lib/testlib.py \
    build/cuda/moved_ring | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server \
    $(BIN)/libsoftgpu.so
	$(call script,tests/control/groups.py $(BIN) build/cuda/moved_ring)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_groups@sleeps)
LONG_TESTS += "$(BUILD)/tests/control_groups all@sleeps"
$(BUILD)/tests/control_groups_rests: $(addprefix tests/control/,groups_rests.py groups.py moves_killed.py moves.py) \
    tests/lib/testlib.py build/cuda/moved_ring | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run \
    $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/groups_rests.py $(BIN) build/cuda/moved_ring)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_groups_rests@sleeps)
LONG_TESTS += $(foreach w,suspends resumes saves,"$(BUILD)/tests/control_groups_rests $w@sleeps,900")
$(BUILD)/tests/control_groups_random: $(addprefix tests/control/,groups_random.py moves_killed.py moves.py) \
    tests/lib/testlib.py build/cuda/moved_stripes | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run \
    $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/groups_random.py $(BIN) build/cuda/moved_stripes)
LONG_TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(foreach first,1 3,\
              "$(BUILD)/tests/control_groups_random $(first) 2@sleeps"))
run-long-tests: $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_groups_random)
$(BUILD)/tests/control_suspends: $(addprefix tests/control/,suspends.py moves_killed.py moves.py) tests/lib/testlib.py \
    build/cuda/moved | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/suspends.py $(BIN) build/cuda/moved)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_suspends@sleeps)
LONG_TESTS += "$(BUILD)/tests/control_suspends all@sleeps"
$(BUILD)/tests/control_saves: $(addprefix tests/control/,saves.py moves.py wire.py) tests/lib/testlib.py \
    build/cuda/moved | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/saves.py $(BIN) build/cuda/moved)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_saves@sleeps)
$(BUILD)/tests/control_saves_killed: tests/lib/testlib.py build/cuda/moved \
    $(addprefix tests/control/,saves_killed.py saves.py moves_killed.py moves.py wire.py) \
    | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/saves_killed.py $(BIN) build/cuda/moved)
LONG_TESTS += $(if $(findstring thread,$(FLAVOUR)),,"$(BUILD)/tests/control_saves_killed@sleeps" \
              "$(BUILD)/tests/control_saves_killed suspends@sleeps")
run-long-tests: $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_saves_killed)
$(BUILD)/tests/control_elastic_random: tests/lib/testlib.py build/cuda/moved \
    $(addprefix tests/control/,elastic_random.py saves.py moves_killed.py moves.py wire.py) \
    | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/elastic_random.py $(BIN) build/cuda/moved)
LONG_TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(foreach first,1 4 7,\
              "$(BUILD)/tests/control_elastic_random $(first) 3@sleeps"))
run-long-tests: $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_elastic_random)
$(BUILD)/tests/control_gpu_links: tests/control/gpu_links.py tests/control/wire.py tests/lib/testlib.py \
    $(BUILD)/tests/comm_coordinator | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/gpu_links.py $(BIN) $(BUILD)/tests/comm_coordinator)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_gpu_links@sleeps)
LONG_TESTS += "$(BUILD)/tests/control_gpu_links all@sleeps"
$(BUILD)/tests/control_recovers: $(addprefix tests/control/,recovers.py moves.py) tests/lib/testlib.py \
    | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/recovers.py $(BIN) -)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_recovers@sleeps)
$(BUILD)/tests/control_fresh: tests/control/fresh.py tests/control/moves_killed.py tests/control/moves.py \
    tests/lib/testlib.py build/cuda/moved \
    | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/fresh.py $(BIN) build/cuda/moved)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_fresh@sleeps)
LONG_TESTS += "$(BUILD)/tests/control_fresh all@sleeps"
