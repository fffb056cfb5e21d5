# flyt-local and prepared folders.
TESTS += "tests/control/local_trust.sh $(BIN)" "tests/control/local_monitor.py $(BIN)"
