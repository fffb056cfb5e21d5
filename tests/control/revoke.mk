# Clusters whose daemons a test starts by hand (hand.py): what administrators of each role may do, and revoked
# certificates; daemons that are stopped, and clocks that are set.
TESTS_CONTROL_HAND := $(addprefix $(BUILD)/tests/control_,revoke stopped renewal)
$(BUILD)/tests/control_revoke $(BUILD)/tests/control_renewal: TESTS_HAND_PROGRAMS = build/cuda/forever
$(BUILD)/tests/control_stopped: TESTS_HAND_PROGRAMS = build/cuda/forever build/cuda/vector_add
$(TESTS_CONTROL_HAND): $(BUILD)/tests/control_%: tests/control/%.py tests/control/hand.py build/cuda/forever \
                       build/cuda/vector_add | $(PROGRAMS)
	$(call script,tests/control/$*.py $(BIN) $(TESTS_HAND_PROGRAMS))
TESTS += "tests/control/stranger.py $(BIN)@sleeps"
TESTS += $(TESTS_CONTROL_HAND:%=%@sleeps)
