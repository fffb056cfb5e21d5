# cpu/server: cricket-rpc-server (listener and worker) and libflyt-server.so (the same session code for local:).
CPU_SERVER_GPU_OBJECTS := $(call objects,$(addprefix cpu/server/gpu/,gpu.c null.c null_code.c null_memory.c))
# Of the program alone, and of local: alone; all other files are the session's.
CPU_SERVER_MAIN  := $(filter-out cpu/server/listener/local.c,$(wildcard cpu/server/listener/*.c))
CPU_SERVER_LOCAL := $(wildcard cpu/server/listener/local.c cpu/server/listener/local.c)
CPU_SERVER_SESSION_OBJECTS := \
    $(call objects,$(filter-out cpu/server/gpu/% cpu/server/listener/%,$(wildcard cpu/server/*/*.c))) \
    $(CPU_SERVER_GPU_OBJECTS)
# Links between workers and collectives (cpu/server/links, cpu/server/comm) use CPU_COMM_OBJECTS, which are of the
# program alone, since they need TLS.
CPU_SERVER_MAIN_OBJECTS  := $(call objects,$(CPU_SERVER_MAIN))
CPU_SERVER_LOCAL_OBJECTS := $(call objects,$(CPU_SERVER_LOCAL))
# Expanded late: the other rooms may be included after this one.
CPU_SERVER_BASE = $(CPU_RPC_OBJECTS) $(CPU_CODE_OBJECTS) $(CPU_CODE_LAYOUT_OBJECTS) $(CPU_COMMON_OBJECTS)
CPU_SERVER_LIBS = $(CPU_RPC_LIBS) $(CPU_CODE_LIBS) -ldl -lm
# What cpu/api generates for this room.
CPU_SERVER_FORWARDED := $(BUILD)/cpu/server/forwarded.o
CPU_SERVER_SESSION_OBJECTS += $(CPU_SERVER_FORWARDED)
$(CPU_SERVER_FORWARDED): $(BUILD)/generated/api/forward/server.c | $(API_INCLUDED)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(CPU_SERVER_SESSION_OBJECTS) $(CPU_SERVER_MAIN_OBJECTS) $(CPU_SERVER_LOCAL_OBJECTS): | $(CPU_RPC_HEADERS)

.SECONDEXPANSION:
$(BIN)/cricket-rpc-server $(BIN)/libflyt-server.so: LINK_LTO = $(WHOLE_LTO)
$(BIN)/cricket-rpc-server: $(CPU_SERVER_MAIN_OBJECTS) $(CPU_COMMON_TICKET_OBJECTS) $(CPU_SERVER_SESSION_OBJECTS) \
    $$(CPU_COMM_OBJECTS) $$(CPU_SERVER_BASE) $$(CPU_RPC_TLS_OBJECTS) $(LINKED)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $(filter-out $(LINKED),$^) $(CPU_SERVER_LIBS) $(CPU_RPC_TLS_LIBS) -o $@

$(BIN)/libflyt-server.so: $(CPU_SERVER_LOCAL_OBJECTS) $(CPU_SERVER_SESSION_OBJECTS) \
    $$(CPU_SERVER_BASE) $(LINKED) | $(AGED)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libflyt-server.so $(ALONE) $(ALL_LDFLAGS) \
	    $(filter-out $(LINKED),$^) $(call inside,$(CPU_SERVER_LIBS)) -o $@

PROGRAMS += $(BIN)/cricket-rpc-server $(BIN)/libflyt-server.so
