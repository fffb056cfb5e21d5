# control-managers/packaging: make install, uninstall, install-cmgrs, deb. See the script `install` for where things go.
PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR    ?=
PACKAGING_ENVIRONMENT = BIN="$(abspath $(BIN))" DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" SYSCONFDIR="$(SYSCONFDIR)" \
                        PURGE="$(PURGE)"

.PHONY: install install-cmgrs uninstall deb
install: all
	@$(PACKAGING_ENVIRONMENT) control-managers/packaging/install ALL
install-cmgrs: all
	@$(PACKAGING_ENVIRONMENT) control-managers/packaging/install CMGRS
uninstall:
	@$(PACKAGING_ENVIRONMENT) control-managers/packaging/install UNINSTALL
deb: all
	@control-managers/packaging/make-deb "$(abspath $(BIN))" "$(abspath build)"
