# The CUDA Runtime on the client core: libcudart.so.11.0, .12 and .13, and cricket-client.so, which carries all three.
# The same sources are compiled once per major version (objects in build/<flavour>/cudart-<N>/).
RUNTIME_DIR      := cpu/client/runtime
RUNTIME_SOURCES  := $(filter-out %/stubs.c,$(wildcard $(RUNTIME_DIR)/*.c))
RUNTIME_NAMES    := $(notdir $(basename $(RUNTIME_SOURCES)))
RUNTIME_VERSIONS := 11 12 13
RUNTIME_NODE_11  := libcudart.so.11.0
RUNTIME_NODE_12  := libcudart.so.12
RUNTIME_NODE_13  := libcudart.so.13
RUNTIME_LIBRARIES := $(foreach v,$(RUNTIME_VERSIONS),$(BIN)/cudart/$(RUNTIME_NODE_$(v)))
RUNTIME_PRELOAD  := $(BIN)/cricket-client.so
RUNTIME_CORE     ?= $(BIN)/libflyt-client.so
# The prototypes of the entry points are NVIDIA's header, which is not read here.
RUNTIME_CFLAGS   := -Wno-missing-prototypes
# clang leaves the symbols of a sanitizer to the program. nodelete: the core's threads run host functions through us.
RUNTIME_LDFLAGS  := $(if $(SANITIZE),,-Wl,-z,defs) -Wl,-z,relro,-z,now,-z,nodelete,-Bsymbolic-functions,--enable-new-dtags
OBJCOPY          ?= objcopy

runtime_objects   = $(RUNTIME_NAMES:%=$(BUILD)/cudart-$(1)/%.o)

# $(1): 11, 12 or 13
define RUNTIME_RULES
$(BUILD)/cudart-$(1)/%.o: $(RUNTIME_DIR)/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $(RUNTIME_CFLAGS) -DFLYT_CUDART=$(1) -MMD -MP -c $$< -o $$@

$(BUILD)/cudart-$(1)/stubs.c: $(RUNTIME_DIR)/stubs.sh $(RUNTIME_DIR)/exports/$(1).txt $(call runtime_objects,$(1))
	$$(word 1,$$^) $$(wordlist 2,9999,$$^) > $$@

$(BUILD)/cudart-$(1)/stubs.o: $(BUILD)/cudart-$(1)/stubs.c
	$$(CC) $$(ALL_CFLAGS) $(RUNTIME_CFLAGS) -DFLYT_CUDART=$(1) -MMD -MP -c $$< -o $$@

$(BUILD)/cudart-$(1)/exports.map: $(RUNTIME_DIR)/version_script.sh $(RUNTIME_DIR)/exports/$(1).txt
	@mkdir -p $$(@D)
	$$(word 1,$$^) $(RUNTIME_NODE_$(1)) $$(word 2,$$^) > $$@

$(BIN)/cudart/$(RUNTIME_NODE_$(1)): $(call runtime_objects,$(1)) $(BUILD)/cudart-$(1)/stubs.o $(BUILD)/cudart-$(1)/exports.map | $(RUNTIME_CORE)
	@mkdir -p $$(@D)
	$$(CC) -shared -o $$@ $$(filter %.o,$$^) -Wl,-soname,$(RUNTIME_NODE_$(1)) -Wl,--version-script=$(BUILD)/cudart-$(1)/exports.map \
	    $(RUNTIME_LDFLAGS) -Wl,-rpath,'$$$$ORIGIN:$$$$ORIGIN/..' -Wl,--no-as-needed $(RUNTIME_CORE) $$(ALL_LDFLAGS)

# For cricket-client.so: one object per version, everything but its exports made local, and these renamed to name@node.
$(BUILD)/cudart-$(1)/renames: $(RUNTIME_DIR)/exports/$(1).txt
	@mkdir -p $$(@D)
	sed 's/.*/& &$(if $(filter 13,$(1)),@@,@)$(RUNTIME_NODE_$(1))/' $$< > $$@

$(BUILD)/cudart-$(1)/all.o: $(call runtime_objects,$(1)) $(BUILD)/cudart-$(1)/stubs.o $(BUILD)/cudart-$(1)/renames
	$$(CC) -r -nostdlib -o $$@.joined $$(filter %.o,$$^)
	$$(OBJCOPY) --keep-global-symbols=$(RUNTIME_DIR)/exports/$(1).txt $$@.joined
	$$(OBJCOPY) --redefine-syms=$(BUILD)/cudart-$(1)/renames $$@.joined $$@
	@rm -f $$@.joined
endef
$(foreach v,$(RUNTIME_VERSIONS),$(eval $(call RUNTIME_RULES,$(v))))

$(BUILD)/cudart-13/preload.map: $(RUNTIME_DIR)/version_script.sh
	@mkdir -p $(@D)
	for node in $(foreach v,$(RUNTIME_VERSIONS),$(RUNTIME_NODE_$(v))); do $< $$node; done > $@

$(RUNTIME_PRELOAD): $(foreach v,$(RUNTIME_VERSIONS),$(BUILD)/cudart-$(v)/all.o) $(BUILD)/cudart-13/preload.map | $(RUNTIME_CORE)
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $(filter %.o,$^) -Wl,-soname,cricket-client.so -Wl,--version-script=$(BUILD)/cudart-13/preload.map \
	    $(RUNTIME_LDFLAGS) -Wl,-rpath,'$$ORIGIN' -Wl,--no-as-needed $(RUNTIME_CORE) $(ALL_LDFLAGS)

PROGRAMS += $(RUNTIME_LIBRARIES) $(RUNTIME_PRELOAD)
