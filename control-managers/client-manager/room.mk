# control-managers/client-manager: flyt-client-manager.
CLIENT_MANAGER_NAMES   := main.c schema.c find.c moves.c own_view.c programs.c cluster.c recovery.c gpu_links.c \
                          groups.c shares.c state.c values.c visitors.c
CLIENT_MANAGER_OBJECTS := $(call objects,$(addprefix control-managers/client-manager/,$(CLIENT_MANAGER_NAMES)))

$(CLIENT_MANAGER_OBJECTS): | $(CONTROL_COMMON_HEADERS)

$(BIN)/flyt-client-manager: $(CLIENT_MANAGER_OBJECTS) $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS)) \
    $(call objects,control-managers/common/process.c cpu/checkpoint/seal.c cpu/checkpoint/cipher.c cpu/code/hash.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ $(CONTROL_COMMON_LIBS) -lb2 -o $@
PROGRAMS += $(BIN)/flyt-client-manager
