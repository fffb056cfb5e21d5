# cpu/client/driver: libcuda.so.1 for programs, the Driver API on the client core.
DRIVER_LIBRARY   := $(BIN)/cudart/libcuda.so.1
DRIVER_SOURCES   := $(wildcard cpu/client/driver/*.c)
DRIVER_GENERATED := $(BUILD)/generated/api/driver
DRIVER_FRONT     := $(BUILD)/cpu/client/driver/front.o
DRIVER_FORWARDED := $(BUILD)/cpu/client/driver/forwarded.o
DRIVER_OWN       := $(call objects,$(DRIVER_SOURCES)) $(DRIVER_FRONT) $(DRIVER_FORWARDED)
DRIVER_OBJECTS   := $(DRIVER_OWN) $(call objects,$(addprefix cpu/common/,driver_names.c env.c log.c texref.c))
PROGRAMS         += $(DRIVER_LIBRARY) $(BIN)/cudart/libcuda.so

# What NVIDIA's own runtime and libraries ask of a driver beyond the public API: docs/interoperability.md.
INTEROP ?= yes
$(if $(filter yes no,$(INTEROP)),,$(error INTEROP is yes or no, not "$(INTEROP)"))
$(DRIVER_OWN): ALL_CFLAGS += -DFLYT_INTEROP=$(if $(filter yes,$(INTEROP)),1,0)
$(DRIVER_OWN): | $(DRIVER_GENERATED)/driver.h

# A build with the other value of INTEROP compiles that file again.
DRIVER_INTEROP := $(BUILD)/cpu/client/driver/interop-$(INTEROP)
$(DRIVER_INTEROP):
	@mkdir -p $(@D) && rm -f $(@D)/interop-* && touch $@
$(BUILD)/cpu/client/driver/export_tables.o: $(DRIVER_INTEROP)

$(DRIVER_FRONT): $(DRIVER_GENERATED)/front.c $(DRIVER_GENERATED)/driver.h $(DRIVER_GENERATED)/entries.inc
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Wno-unused-parameter -MMD -MP -c $< -o $@

$(DRIVER_FORWARDED): $(BUILD)/generated/api/forward/driver.c | $(API_INCLUDED)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# nodelete: a program that unloads it keeps addresses of its functions, and the core's threads run host functions
# through it.
$(DRIVER_LIBRARY): $(DRIVER_OBJECTS) $(DRIVER_GENERATED)/exports.map | $(BIN)/libflyt-client.so $(AGED)
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $(filter %.o,$^) -Wl,-soname,libcuda.so.1 \
	    -Wl,--version-script=$(DRIVER_GENERATED)/exports.map $(RUNTIME_LDFLAGS) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..' \
	    -Wl,--no-as-needed $(RUNTIME_CORE) $(ALL_LDFLAGS)

# Some programs load libcuda.so without a number (Taichi, for example): NVIDIA's installer makes that name too.
$(BIN)/cudart/libcuda.so: | $(DRIVER_LIBRARY)
	ln -sfn $(notdir $(DRIVER_LIBRARY)) $@
