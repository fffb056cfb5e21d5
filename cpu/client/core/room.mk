# cpu/client/core: libflyt-client.so, the connection of a process that all front ends share.
CORE_SOURCES := perf.c stats.c stats_report.c wire.c state.c session.c local.c manager.c patience.c events.c helper.c device.c context.c context_work.c context_life.c address.c window.c memory.c host_memory.c host_space.c chunks.c \
                stream.c progress.c rest.c send.c backlog.c returned.c event.c pending.c outs.c xdr_copy.c copy.c copy_box.c throttle.c host_function.c image.c code.c lanes.c lanes_choice.c lanes_in.c lanes_out.c launch.c trace.c trace_value.c
# Expanded late: cpu/rpc is read after this room.
CORE_OBJECTS = $(call objects,$(addprefix cpu/client/core/,$(CORE_SOURCES))) $(CPU_RPC_MANAGER_OBJECTS)
PROGRAMS     += $(BIN)/libflyt-client.so

# Rooms are read in the order of their names: what later ones define is expanded when it is needed.
.SECONDEXPANSION:
$(CORE_OBJECTS): | $$(CPU_RPC_HEADERS)

# Only what core.h marks with CORE_API is exported: the objects are compiled with hidden visibility.
$(BIN)/libflyt-client.so: LINK_LTO = $(WHOLE_LTO)
$(BIN)/libflyt-client.so: $$(CORE_OBJECTS) $$(CPU_RPC_OBJECTS) $$(CPU_COMMON_OBJECTS)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libflyt-client.so -Wl,--no-undefined $(ALL_LDFLAGS) -o $@ $^ $(CPU_COMMON_LIBS) $(CPU_RPC_LIBS) -ldl
