# Software of others from PyPI and Debian, on the software GPU: what is installed below build/software is tried.
ifeq ($(FLAVOUR),plain)
SOFTWARE_RUN := tests/software/run $(BIN)
LONG_TESTS += "$(SOFTWARE_RUN)@3600"

.PHONY: check-software
check-software: all
	@$(SOFTWARE_RUN)
endif
