# control-managers/local: flyt-local, a script.
$(BIN)/flyt-local: control-managers/local/flyt-local cpu/common/version.h | $(BIN)/flyt-cluster-manager \
    $(BIN)/flyt-node-manager $(BIN)/flyt-client-manager
	@mkdir -p $(@D)
	sed "s/@VERSION@/$$(control-managers/packaging/version)/" $< > $@
	chmod 755 $@
PROGRAMS += $(BIN)/flyt-local
