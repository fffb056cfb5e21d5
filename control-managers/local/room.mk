# control-managers/local: flyt-local, a script.
$(BIN)/flyt-local: control-managers/local/flyt-local $(VERSION_FILE) | $(BIN)/flyt-cluster-manager \
    $(BIN)/flyt-node-manager $(BIN)/flyt-client-manager
	@mkdir -p $(@D)
	sed "s/@VERSION@/$$(cat $(VERSION_FILE))/" $< > $@
	chmod 755 $@
PROGRAMS += $(BIN)/flyt-local
