# The software GPU: bin/libsoftgpu.so, which offers the CUDA driver API (softgpu/driver/calls/calls.h) on the machine of softgpu/exec/.
SOFTGPU_MACHINE_FILES := array.c attributes.c config.c context.c device.c domain.c event.c extents.c function.c handle.c image.c library.c \
                         memory.c module.c op.c queue.c run.c space.c state.c stream.c texture.c turn.c work.c
SOFTGPU_CALLS_FILES := array.c context.c copy.c current.c device.c entry.c errors.c event.c function.c host.c init.c launch.c library.c memory.c \
                       module.c occupancy.c per_thread.c pointer.c set.c stream.c symbols.c texture.c value.c vmm.c
SOFTGPU_DRIVER_OBJECTS := $(call objects,$(addprefix softgpu/driver/machine/,$(SOFTGPU_MACHINE_FILES)) $(addprefix softgpu/driver/calls/,$(SOFTGPU_CALLS_FILES)))
SOFTGPU_OBJECTS := $(SOFTGPU_DRIVER_OBJECTS) $(SOFTGPU_EXEC_OBJECTS) $(SOFTGPU_ALU_OBJECTS) $(SOFTGPU_PTX_OBJECTS) \
                   $(call objects,$(addprefix cpu/common/,driver_names.c env.c fatbin.c fd.c gaps.c log.c past_cache.c tree.c))
SOFTGPU_LIBRARY := $(BIN)/libsoftgpu.so

# Never unloaded: its threads live as long as the process.
$(SOFTGPU_LIBRARY): $(SOFTGPU_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libsoftgpu.so -Wl,-z,nodelete -Wl,-Bsymbolic $(if $(SANITIZE),,-Wl,-z,defs) -o $@ $^ -lzstd -llz4 -lm

# While softgpu/exec/ grows: no library before all of it is there.
ifeq ($(filter-out $(wildcard $(SOFTGPU_EXEC_SOURCES)),$(SOFTGPU_EXEC_SOURCES)),)
PROGRAMS += $(SOFTGPU_LIBRARY)
endif
