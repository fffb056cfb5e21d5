# flytctl, against a real cluster manager and a node with a software GPU.
TESTS += "tests/control/ctl.py $(BIN)@sleeps"
