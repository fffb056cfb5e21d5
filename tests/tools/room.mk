# What belongs to the project as a whole.
TESTS += "tests/tools/man.sh $(BIN)"
