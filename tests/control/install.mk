# make install, uninstall, deb, and the units.
TESTS      += "tests/control/install.py $(BIN) build/cuda/vector_add@400"
LONG_TESTS += "tests/control/install.py $(BIN) build/cuda/vector_add packages@400"
test-programs run-long-tests: build/cuda/vector_add
