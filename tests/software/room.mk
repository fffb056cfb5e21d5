# Software of others from PyPI and Debian, on the software GPU: what is installed below build/software is tried.
# make check-software SOFTWARE="--install --resume cuml": options and names of tests/software/run
ifeq ($(FLAVOUR),plain)
SOFTWARE_RUN := tests/software/run $(BIN)
LONG_TESTS += "$(SOFTWARE_RUN) --minutes 30"@3600

.PHONY: check-software
check-software: all
	@$(SOFTWARE_RUN) $(SOFTWARE)
endif
