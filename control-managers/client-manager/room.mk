# control-managers/client-manager: flyt-client-manager.
CLIENT_MANAGER_NAMES   := main.c schema.c moves.c programs.c cluster.c state.c
CLIENT_MANAGER_OBJECTS := $(call objects,$(addprefix control-managers/client-manager/,$(CLIENT_MANAGER_NAMES)))

$(CLIENT_MANAGER_OBJECTS): | $(CONTROL_COMMON_HEADERS)

$(BIN)/flyt-client-manager: $(CLIENT_MANAGER_OBJECTS) $(call objects,control-managers/common/process.c) \
    $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ $(CONTROL_COMMON_LIBS) -o $@
PROGRAMS += $(BIN)/flyt-client-manager
