# Flyt's libcudart and libcuda for all programs of a machine, and back: see the scripts.
.PHONY: install-client-lib restore-client-lib
install-client-lib: all
	@cpu/client/install/install-client-lib $(BIN)
restore-client-lib:
	@cpu/client/install/restore-client-lib
