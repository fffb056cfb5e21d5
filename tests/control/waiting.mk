# What a starting program says while something on its way to the GPU is missing.
$(BUILD)/tests/control_waiting: tests/control/waiting.py $(BUILD)/tests/control_client_program | $(PROGRAMS)
	$(call script,tests/control/waiting.py $(BIN) $(BUILD)/tests/control_client_program)
TESTS += $(BUILD)/tests/control_waiting@sleeps
# Programs and the GPU time that they used are counted; what waits says why.
TESTS += "tests/control/usage.py $(BIN) $(BUILD)/tests/control_client_program build/cuda/sticky@sleeps"
# Programs start while the link to the machine of a GPU server is lost.
TESTS += "tests/control/link_lost.py $(BIN) $(BUILD)/tests/control_client_program@sleeps"
# Logs of GPU servers.
TESTS += "tests/control/server_logs.py $(BIN) $(BUILD)/tests/control_client_program@sleeps"
# What users of a VM see of it.
TESTS += "tests/control/user_view.py $(BIN) $(BUILD)/tests/control_client_program@sleeps"
# One user of a VM leaves room for the others.
TESTS += "tests/control/user_shares.py $(BIN)@sleeps"
