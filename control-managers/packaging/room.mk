# control-managers/packaging: make install, uninstall, install-cmgrs, install-cpu-client, deb, deb-client,
# dist. The script `install` says where things go.
PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR    ?=
PACKAGING_ENVIRONMENT = BIN="$(abspath $(BIN))" DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" SYSCONFDIR="$(SYSCONFDIR)" \
                        PURGE="$(PURGE)"

.PHONY: install install-cmgrs install-cpu-client uninstall deb deb-client dist
# The sources of the last commit, which know their version without git.
dist: DIST_NAME = flyt-$(file <$(VERSION_FILE))
dist:
	@git archive --format=tar.gz --prefix=$(DIST_NAME)/ -o build/$(DIST_NAME).tar.gz HEAD
	@echo build/$(DIST_NAME).tar.gz
install: all
	@$(PACKAGING_ENVIRONMENT) control-managers/packaging/install ALL
install-cmgrs: all
	@$(PACKAGING_ENVIRONMENT) control-managers/packaging/install CMGRS
install-cpu-client: all
	@$(PACKAGING_ENVIRONMENT) control-managers/packaging/install CLIENT
uninstall:
	@$(PACKAGING_ENVIRONMENT) control-managers/packaging/install UNINSTALL
deb:
	@tools/setup --for package
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@control-managers/packaging/make-deb "$(abspath $(BIN))" "$(abspath build)"
	@[ ! -e $(BIN)/libsoftgpu-jit.so ] || \
	    control-managers/packaging/make-deb "$(abspath $(BIN))" "$(abspath build)" compiler
deb-client:
	@tools/setup --for package
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@control-managers/packaging/make-deb "$(abspath $(BIN))" "$(abspath build)" client
