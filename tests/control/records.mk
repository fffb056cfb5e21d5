# Logs, the audit trail, monitoring.
TESTS += "tests/control/records.py $(BIN)@sleeps"
