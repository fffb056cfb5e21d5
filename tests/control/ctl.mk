# flytctl, against a real cluster manager and a node with a software GPU, and alone.
TESTS += "tests/control/ctl.py $(BIN)@sleeps" "tests/control/ctl_alone.py $(BIN)@sleeps"
TESTS += "tests/control/entitlements.py $(BIN)@sleeps"
