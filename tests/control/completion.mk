# What TAB does in bash.
TESTS += "tests/control/completion.py $(BIN)"
