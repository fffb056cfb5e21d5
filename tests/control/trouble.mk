# What an operator meets when something is wrong with the daemons.
TESTS += "tests/control/trouble.py $(BIN) $(BUILD)/tests/control_client_program@sleeps"
