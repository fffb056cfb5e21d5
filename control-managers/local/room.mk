# control-managers/local: flyt-local, a script.
$(BIN)/flyt-local: control-managers/local/flyt-local | $(BIN)/flyt-cluster-manager $(BIN)/flyt-node-manager $(BIN)/flyt-client-manager
	@mkdir -p $(@D)
	install -m 755 $< $@
PROGRAMS += $(BIN)/flyt-local
