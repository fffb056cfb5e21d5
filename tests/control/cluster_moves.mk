# Programs that move: the states alone, and whole clusters.
$(call objects,tests/control/cluster_moves.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_cluster_moves: $(call objects,tests/control/cluster_moves.c \
                                      control-managers/cluster-manager/moves.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka
TESTS += $(BUILD)/tests/control_cluster_moves
$(BUILD)/tests/control_moves: tests/control/moves.py tests/lib/testlib.py build/cuda/moved \
    | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/control/moves.py %s build/cuda/moved "$$@"\n' $(BIN) > $@
	@chmod +x $@
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_moves@sleeps)
LONG_TESTS += "$(BUILD)/tests/control_moves all@sleeps"
$(BUILD)/tests/control_moves_killed: tests/control/moves_killed.py tests/control/moves.py tests/lib/testlib.py \
    build/cuda/moved | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/control/moves_killed.py %s build/cuda/moved "$$@"\n' $(BIN) > $@
	@chmod +x $@
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_moves_killed@sleeps)
LONG_TESTS += "$(BUILD)/tests/control_moves_killed all@sleeps"
