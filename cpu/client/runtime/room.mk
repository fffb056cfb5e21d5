# The CUDA Runtime on the client core: libcudart.so.11.0, .12 and .13, and cricket-client.so, which carries all three.
# The same sources are compiled once per major version (objects in build/<flavour>/cudart-<N>/).
RUNTIME_DIR      := cpu/client/runtime
RUNTIME_SOURCES  := $(wildcard $(RUNTIME_DIR)/*.c)
RUNTIME_NAMES    := $(notdir $(basename $(RUNTIME_SOURCES)))
RUNTIME_VERSIONS := 11 12 13
RUNTIME_NODE_11  := libcudart.so.11.0
RUNTIME_NODE_12  := libcudart.so.12
RUNTIME_NODE_13  := libcudart.so.13
RUNTIME_LIBRARIES := $(foreach v,$(RUNTIME_VERSIONS),$(BIN)/cudart/$(RUNTIME_NODE_$(v)))
RUNTIME_PRELOAD  := $(BIN)/cricket-client.so
RUNTIME_CORE     ?= $(BIN)/libflyt-client.so
# clang leaves the symbols of a sanitizer to the program. nodelete: the core's threads run host functions through us.
RUNTIME_LDFLAGS  := $(if $(SANITIZE),,-Wl,-z,defs) \
                    -Wl,-z,relro,-z,now,-z,nodelete,-Bsymbolic-functions,--enable-new-dtags $(OWN_WEAK) \
                    $(AGED_LDFLAGS)
OBJCOPY          ?= objcopy

# What cpu/api makes of the description: types, entry points, the names that each library exports.
RUNTIME_GENERATED = $(BUILD)/generated/api/cudart$(1)
# The same sources are compiled once per version; the entry points call what they define.
runtime_objects   = $(RUNTIME_NAMES:%=$(BUILD)/cudart-$(1)/%.o) $(BUILD)/cudart-$(1)/entries.o

# $(1): 11, 12 or 13
define RUNTIME_RULES
$(BUILD)/cudart-$(1)/%.o: $(RUNTIME_DIR)/%.c | $(call RUNTIME_GENERATED,$(1))/cudart.h $(API_INCLUDED)
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) -DFLYT_CUDART=$(1) -MMD -MP -c $$< -o $$@

$(BUILD)/cudart-$(1)/entries.o: $(call RUNTIME_GENERATED,$(1))/entries.c $(call RUNTIME_GENERATED,$(1))/entries.h \
    $(call RUNTIME_GENERATED,$(1))/cudart.h
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) -DFLYT_CUDART=$(1) -MMD -MP -c $$< -o $$@

$(BIN)/cudart/$(RUNTIME_NODE_$(1)): $(call runtime_objects,$(1)) $(call RUNTIME_GENERATED,$(1))/exports.map \
    | $(RUNTIME_CORE) $(AGED)
	@mkdir -p $$(@D)
	$$(CC) -shared -o $$@ $$(filter %.o,$$^) -Wl,-soname,$(RUNTIME_NODE_$(1)) \
	    -Wl,--version-script=$(call RUNTIME_GENERATED,$(1))/exports.map \
	    $(RUNTIME_LDFLAGS) -Wl,-rpath,'$$$$ORIGIN:$$$$ORIGIN/..' -Wl,--no-as-needed $(RUNTIME_CORE) $$(ALL_LDFLAGS)

# For cricket-client.so: one object per version, everything but its exports made local, and these renamed to name@node.
$(BUILD)/cudart-$(1)/all.o: $(call runtime_objects,$(1)) $(call RUNTIME_GENERATED,$(1))/exports.txt \
    $(call RUNTIME_GENERATED,$(1))/renames
	$$(CC) -r -nostdlib -o $$@.joined $$(filter %.o,$$^)
	$$(OBJCOPY) --keep-global-symbols=$(call RUNTIME_GENERATED,$(1))/exports.txt $$@.joined
	$$(OBJCOPY) --redefine-syms=$(call RUNTIME_GENERATED,$(1))/renames $$@.joined $$@
	@rm -f $$@.joined
endef
$(foreach v,$(RUNTIME_VERSIONS),$(eval $(call RUNTIME_RULES,$(v))))

$(RUNTIME_PRELOAD): $(foreach v,$(RUNTIME_VERSIONS),$(BUILD)/cudart-$(v)/all.o) $(BUILD)/generated/api/preload.map \
    | $(RUNTIME_CORE) $(AGED)
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $(filter %.o,$^) -Wl,-soname,cricket-client.so \
	    -Wl,--version-script=$(BUILD)/generated/api/preload.map \
	    $(RUNTIME_LDFLAGS) -Wl,-rpath,'$$ORIGIN' -Wl,--no-as-needed $(RUNTIME_CORE) $(ALL_LDFLAGS)

# Scripts often load libcudart.so without a number, as a machine with a toolkit has it: the newest.
$(BIN)/cudart/libcudart.so: | $(BIN)/cudart/$(RUNTIME_NODE_13)
	ln -sfn $(RUNTIME_NODE_13) $@

PROGRAMS += $(RUNTIME_LIBRARIES) $(RUNTIME_PRELOAD) $(BIN)/cudart/libcudart.so
