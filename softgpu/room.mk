# The software GPU: bin/libsoftgpu.so, which offers the CUDA driver API (softgpu/driver/calls/calls.h) on the machine
# of softgpu/exec/.
SOFTGPU_MACHINE := array attributes compiled config context device domain event extents function handle heap image \
                   library link memory module op peer queue run space state stream texref texture turn work
SOFTGPU_CALLS := array context copy current device entry errors event function host init launch library link memory \
                 module occupancy per_thread place pointer set stream symbols tensor texref texture value vmm watch
SOFTGPU_DRIVER_OBJECTS := $(call objects,$(SOFTGPU_MACHINE:%=softgpu/driver/machine/%.c) \
                                         $(SOFTGPU_CALLS:%=softgpu/driver/calls/%.c))
SOFTGPU_OBJECTS := $(SOFTGPU_DRIVER_OBJECTS) $(SOFTGPU_EXEC_OBJECTS) $(SOFTGPU_ALU_OBJECTS) $(SOFTGPU_PTX_OBJECTS) \
                   $(call objects,$(addprefix cpu/common/,driver_names.c env.c fd.c gaps.c log.c past_cache.c texref.c \
                   tree.c)) \
                   $(call objects,cpu/code/fatbin.c cpu/code/kernels.c cpu/code/object.c)
SOFTGPU_LIBRARY := $(BIN)/libsoftgpu.so

# Never unloaded: its threads live as long as the process.
$(SOFTGPU_LIBRARY): $(SOFTGPU_OBJECTS) | $(AGED)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libsoftgpu.so -Wl,-z,nodelete $(ALONE) $(if $(SANITIZE),,-Wl,-z,defs) \
	    -o $@ $^ $(call inside,-lzstd -llz4 -lm)

# While softgpu/exec/ grows: no library before all of it is there.
ifeq ($(filter-out $(wildcard $(SOFTGPU_EXEC_SOURCES)),$(SOFTGPU_EXEC_SOURCES)),)
PROGRAMS += $(SOFTGPU_LIBRARY)
endif

# `make check-ptx DIR=…` decodes the kernels of a folder's libraries and programs, and says what the software GPU cannot
# execute.
SOFTGPU_CHECK_PTX := $(BUILD)/check-ptx
$(SOFTGPU_CHECK_PTX): $(call objects,softgpu/check/check_ptx.c) $(SOFTGPU_OBJECTS)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) -lzstd -llz4 -lm

.PHONY: check-ptx
check-ptx: $(SOFTGPU_CHECK_PTX)
	$(SOFTGPU_CHECK_PTX) $(or $(DIR),$(error name a folder or files: make check-ptx DIR=/usr/local/cuda/lib64))
