# make install, uninstall, deb, and the units.
TESTS      += "tests/control/install.py $(BIN)@400"
LONG_TESTS += "tests/control/install.py $(BIN) packages@400"
