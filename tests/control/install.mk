# make install, uninstall, deb, and the units.
TESTS += "tests/control/install.py $(BIN)"

# The package on a booted systemd.
LONG_TESTS += "tests/control/boot $(BIN) build/cuda/atomics"
run-long-tests: build/cuda/atomics
