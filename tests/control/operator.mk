# What an operator meets when something is wrong with the daemons.
TESTS += "tests/control/operator.py $(BIN) $(BUILD)/tests/control_client_program@sleeps"
