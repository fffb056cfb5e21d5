# cpu/client/driver: libcuda.so.1 for programs. It implements nothing yet and says so (refusal.c).
DRIVER_LIBRARY   := $(BIN)/cudart/libcuda.so.1
DRIVER_OBJECTS   := $(call objects,cpu/client/driver/refusal.c $(addprefix cpu/common/,driver_names.c env.c log.c))
DRIVER_GENERATED := $(BUILD)/generated/api/driver
PROGRAMS         += $(DRIVER_LIBRARY)

$(BUILD)/cpu/client/driver/refusal.o: | $(DRIVER_GENERATED)/unsupported.inc

# nodelete: a program that unloads it keeps addresses of its functions.
$(DRIVER_LIBRARY): $(DRIVER_OBJECTS) $(DRIVER_GENERATED)/exports.map
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $(filter %.o,$^) -Wl,-soname,libcuda.so.1 \
	    -Wl,--version-script=$(DRIVER_GENERATED)/exports.map $(RUNTIME_LDFLAGS) $(ALL_LDFLAGS)
