# What belongs to the project as a whole.
TESTS += "tests/tools/man.sh $(BIN)"
TESTS += "tests/tools/version.sh $(BIN)"
TESTS += tests/tools/circles.py
