# cpu/client/comm: libflyt-comm.so, cpu/comm for programs. flyt_comm.h is its public header. For memory of GPUs it loads
# libnccl.so.2.
COMM_LIBRARY := $(BIN)/libflyt-comm.so
.SECONDEXPANSION:
$(COMM_LIBRARY): $(call objects,$(wildcard cpu/client/comm/*.c)) cpu/client/comm/exported.map $$(CPU_COMM_OBJECTS) \
    $$(CPU_COMM_NEEDS) $$(CPU_RPC_MANAGER_ASKS) | $(AGED) $$(CPU_RPC_HEADERS)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libflyt-comm.so -Wl,--version-script=cpu/client/comm/exported.map $(ALONE) \
	    $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(call inside,$(CPU_COMM_LIBS)) -ldl
PROGRAMS += $(COMM_LIBRARY)
$(call objects,$(wildcard cpu/client/comm/*.c)): | $$(CPU_RPC_HEADERS)
