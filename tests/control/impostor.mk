# Those who say that they are the cluster manager, or another node.
TESTS += "tests/control/impostor.py $(BIN)"
