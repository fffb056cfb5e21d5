# make install, uninstall, deb, and the units.
TESTS += "tests/control/install.py $(BIN)@400"
