# cpu/client/driver: libcuda.so.1 for programs. It implements nothing yet and says so (refusal.c).
DRIVER_DIR      := cpu/client/driver
DRIVER_LIBRARY  := $(BIN)/cudart/libcuda.so.1
DRIVER_ANSWERED := cuInit cuDriverGetVersion cuGetExportTable cuGetErrorName cuGetErrorString cuGetProcAddress cuGetProcAddress_v2
DRIVER_OBJECTS  := $(call objects,$(DRIVER_DIR)/refusal.c cpu/common/env.c cpu/common/log.c)
PROGRAMS        += $(DRIVER_LIBRARY)

# exports.txt has the names that the driver of CUDA 13.0 exports.
$(BUILD)/generated/driver_refused.h: $(DRIVER_DIR)/exports.txt $(DRIVER_DIR)/room.mk
	@mkdir -p $(@D)
	grep -vx $(DRIVER_ANSWERED:%=-e %) $< | sed 's/.*/NAME(&)/' > $@
$(BUILD)/$(DRIVER_DIR)/refusal.o: $(BUILD)/generated/driver_refused.h

$(BUILD)/generated/driver.map: $(DRIVER_DIR)/exports.txt $(DRIVER_DIR)/room.mk
	@mkdir -p $(@D)
	{ echo '{ global: flyt_libcuda;'; sed 's/$$/;/' $<; echo 'local: *; };'; } > $@

# nodelete: a program that unloads it keeps addresses of its functions.
$(DRIVER_LIBRARY): $(DRIVER_OBJECTS) $(BUILD)/generated/driver.map
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $(filter %.o,$^) -Wl,-soname,libcuda.so.1 -Wl,--version-script=$(BUILD)/generated/driver.map \
	    $(RUNTIME_LDFLAGS) $(ALL_LDFLAGS) -ldl
