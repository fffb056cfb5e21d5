# Logs, the audit trail, monitoring; many nodes.
TESTS += "tests/control/records.py $(BIN)@sleeps" "tests/control/many_nodes.py $(BIN)@sleeps"
