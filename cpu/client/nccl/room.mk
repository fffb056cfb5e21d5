# cpu/client/nccl: libnccl.so.2, NCCL's interface on the communicators of GPU servers.
NCCL_LIBRARY   := $(BIN)/nccl/libnccl.so.2
NCCL_GENERATED := $(BUILD)/generated/nccl
NCCL_STUBS     := $(NCCL_GENERATED)/nccl_stubs.o
NCCL_ENTRIES   := $(NCCL_GENERATED)/nccl_entries.o
NCCL_OBJECTS   := $(call objects,$(wildcard cpu/client/nccl/*.c)) $(NCCL_STUBS) $(NCCL_ENTRIES)
PROGRAMS       += $(NCCL_LIBRARY) $(BIN)/nccl/libnccl.so

$(NCCL_GENERATED)/nccl_stubs.c: cpu/client/nccl/names.txt cpu/client/nccl/stubs.awk
	@mkdir -p $(@D)
	awk -f cpu/client/nccl/stubs.awk $< > $@ || { rm -f $@; exit 1; }
$(NCCL_STUBS): $(NCCL_GENERATED)/nccl_stubs.c
	$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@
$(NCCL_GENERATED)/nccl_entries.s: cpu/client/nccl/names.txt cpu/client/nccl/entries.awk
	@mkdir -p $(@D)
	awk -f cpu/client/nccl/entries.awk $< > $@ || { rm -f $@; exit 1; }
$(NCCL_ENTRIES): $(NCCL_GENERATED)/nccl_entries.s
	$(CC) -c $< -o $@
$(NCCL_GENERATED)/exports.map: cpu/client/nccl/names.txt cpu/client/nccl/exports.awk
	@mkdir -p $(@D)
	awk -f cpu/client/nccl/exports.awk $< > $@ || { rm -f $@; exit 1; }

# Rooms are read in the order of their names.
.SECONDEXPANSION:
$(NCCL_OBJECTS): | $$(CPU_RPC_HEADERS)
$(NCCL_LIBRARY): $(NCCL_OBJECTS) $(NCCL_GENERATED)/exports.map $$(CPU_COMM_OBJECTS) $$(CPU_COMM_NEEDS) \
    | $(BIN)/libflyt-client.so $(AGED)
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $(filter %.o,$^) -Wl,-soname,libnccl.so.2 \
	    -Wl,--version-script=$(NCCL_GENERATED)/exports.map $(ALONE) $(RUNTIME_LDFLAGS) \
	    -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..' -Wl,--no-as-needed $(RUNTIME_CORE) $(ALL_LDFLAGS) \
	    $(call inside,$(CPU_COMM_LIBS))
# For programs that load it without a number, and for the linker.
$(BIN)/nccl/libnccl.so: | $(NCCL_LIBRARY)
	ln -sfn libnccl.so.2 $@
