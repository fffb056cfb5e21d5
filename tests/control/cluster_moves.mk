# Programs that move: the states alone.
$(call objects,tests/control/cluster_moves.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_cluster_moves: $(call objects,tests/control/cluster_moves.c \
                                      control-managers/cluster-manager/moves.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka
TESTS += $(BUILD)/tests/control_cluster_moves
