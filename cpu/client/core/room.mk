# cpu/client/core: libflyt-client.so, the connection of a process that all front ends share.
CORE_SOURCES := $(wildcard cpu/client/core/*/*.c)
# Expanded late: cpu/rpc is read after this room.
CORE_OBJECTS = $(call objects,$(CORE_SOURCES)) $(CORE_FORWARDED) \
               $(CPU_RPC_MANAGER_OBJECTS)
# What cpu/api generates for this room.
CORE_FORWARDED := $(BUILD)/cpu/client/core/forwarded.o
$(CORE_FORWARDED): $(BUILD)/generated/api/forward/core.c | $(API_INCLUDED)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@
PROGRAMS     += $(BIN)/libflyt-client.so

# Rooms are read in the order of their names: what later ones define is expanded when it is needed.
.SECONDEXPANSION:
$(CORE_OBJECTS): | $$(CPU_RPC_HEADERS)

# Only what core.h marks with CORE_API is exported: the objects are compiled with hidden visibility.
$(BIN)/libflyt-client.so: LINK_LTO = $(WHOLE_LTO)
$(BIN)/libflyt-client.so: $$(CORE_OBJECTS) $$(CPU_RPC_OBJECTS) $$(CPU_CODE_OBJECTS) $$(CPU_COMMON_OBJECTS)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libflyt-client.so -Wl,--no-undefined $(ALL_LDFLAGS) -o $@ $^ $(CPU_CODE_LIBS) \
	    $(CPU_RPC_LIBS) -ldl
