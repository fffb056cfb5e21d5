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
# The names of what the library exports: see exported.awk.
CORE_EXPORTING := $(shell grep -lE '^(extern )?(CORE|TRACE)_API ' cpu/client/*/*.h cpu/client/*/*/*.h) \
                  $(BUILD)/generated/api/forward/core.h
CORE_EXPORTED  := $(BUILD)/generated/cpu/client/core/exported_names
$(CORE_EXPORTED).h: $(CORE_EXPORTED).made ;
$(CORE_EXPORTED).made: cpu/client/core/exported.awk $(CORE_EXPORTING)
	@mkdir -p $(@D)
	awk -f $< $(CORE_EXPORTING) > $@
	cmp -s $@ $(CORE_EXPORTED).h || cp $@ $(CORE_EXPORTED).h
PROGRAMS     += $(BIN)/libflyt-client.so

# Rooms are read in the order of their names: what later ones define is expanded when it is needed.
.SECONDEXPANSION:
$(CORE_OBJECTS): | $$(CPU_RPC_HEADERS)

# Only what core.h marks with CORE_API is exported: the objects are compiled with hidden visibility.
$(BIN)/libflyt-client.so: LINK_LTO = $(WHOLE_LTO)
$(BIN)/libflyt-client.so: $$(CORE_OBJECTS) $$(CPU_RPC_OBJECTS) $$(CPU_CODE_OBJECTS) $$(CPU_COMMON_OBJECTS) \
    $$(CPU_CHECKPOINT_OBJECTS) $(LINKED) | $(AGED)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libflyt-client.so -Wl,--no-undefined $(ALONE) $(ALL_LDFLAGS) -o $@ \
	    $(filter-out $(LINKED),$^) \
	    $(call inside,$(CPU_CODE_LIBS) $(CPU_RPC_LIBS)) -ldl
