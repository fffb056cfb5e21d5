# cpu/client/coordinator: libflyt-coordinator.so. flyt_coordinator.h is its public header.
COORDINATOR_LIBRARY := $(BIN)/libflyt-coordinator.so
COORDINATOR_OBJECTS := $(call objects,$(wildcard cpu/client/coordinator/*.c))
.SECONDEXPANSION:
$(COORDINATOR_LIBRARY): $(COORDINATOR_OBJECTS) cpu/client/coordinator/exported.map $$(CPU_RPC_OBJECTS) \
    $$(CPU_RPC_MANAGER_ASKS) $$(CPU_COMMON_OBJECTS) | $(AGED) $$(CPU_RPC_HEADERS)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libflyt-coordinator.so \
	    -Wl,--version-script=cpu/client/coordinator/exported.map $(ALONE) \
	    $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(call inside,$(CPU_RPC_LIBS))
PROGRAMS += $(COORDINATOR_LIBRARY)
$(COORDINATOR_OBJECTS): | $$(CPU_RPC_HEADERS)
