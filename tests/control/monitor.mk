# flyt-monitor, with Prometheus and a browser where they are.
TESTS += "tests/control/monitor.py $(BIN) $(BUILD)/tests/control_client_program@sleeps"
TESTS += "tests/control/monitor_roles.py $(BIN) $(BUILD)/tests/control_client_program@sleeps"
