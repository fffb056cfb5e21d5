# The compiler of the software GPU: bin/libsoftgpu-jit.so, where LLVM's headers are (Debian: llvm-dev, 14 to 19).
# Without them the machine interprets everything.
LLVM_CONFIG ?= $(firstword $(wildcard /usr/bin/llvm-config $(foreach n,19 18 17 16 15 14,/usr/bin/llvm-config-$(n))))
LLVM_INCLUDE := $(if $(LLVM_CONFIG),$(shell $(LLVM_CONFIG) --includedir))
SOFTGPU_JIT_SOURCES := $(addprefix softgpu/jit/,access.c arithmetic.c atomics.c build.c bytes.c conversions.c \
                          divisions.c doubles.c elementary.c emit.c exchanges.c fixed.c floats.c forms.c freeze.c \
                          functions.c gather.c guess.c integers.c lanes.c late.c library.c live.c locals.c matrix.c \
                          parameters.c phases.c places.c ranges.c reach.c region.c rounded.c rows.c run_loads.c \
                          runs.c shapes.c steps.c store.c together.c vectors.c whole.c window.c)
SOFTGPU_JIT_OBJECTS := $(call objects,$(SOFTGPU_JIT_SOURCES) cpu/code/hash.c)
SOFTGPU_JIT_LIBRARY := $(BIN)/libsoftgpu-jit.so
$(SOFTGPU_JIT_OBJECTS): OPTIMISE += -isystem $(LLVM_INCLUDE)
$(SOFTGPU_JIT_LIBRARY): $(SOFTGPU_JIT_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libsoftgpu-jit.so -Wl,-z,nodelete -Wl,--exclude-libs,ALL -Wl,--build-id=sha1 \
	    $(if $(SANITIZE),,-Wl,-z,defs) -o $@ $^ $(shell $(LLVM_CONFIG) --ldflags --libs --link-shared) $(call inside,-lb2)
# What the library and the machine know of each other: both contain the hash of these headers, and it must be the same.
# Another hash is another file, so that both are compiled again, also when a header has gone.
SOFTGPU_JIT_HEADERS := $(sort $(wildcard $(addsuffix *.h,softgpu/ softgpu/alu/ softgpu/exec/ softgpu/ptx/)))
SOFTGPU_JIT_HASH := $(shell cat $(SOFTGPU_JIT_HEADERS) | sha256sum | cut -c 1-16)
SOFTGPU_JIT_HASHED := $(BUILD)/softgpu-headers-$(SOFTGPU_JIT_HASH)
$(SOFTGPU_JIT_HASHED):
	@mkdir -p $(@D) && rm -f $(BUILD)/softgpu-headers-* && touch $@
SOFTGPU_JIT_ENDS := $(call objects,softgpu/exec/jit.c softgpu/jit/library.c)
$(SOFTGPU_JIT_ENDS): $(SOFTGPU_JIT_HASHED)
$(SOFTGPU_JIT_ENDS): ALL_CFLAGS += -DSG_JIT_HEADERS=0x$(SOFTGPU_JIT_HASH)
SOFTGPU_HAS_JIT := $(if $(wildcard $(LLVM_INCLUDE)/llvm-c/LLJIT.h),yes)
ifneq ($(SOFTGPU_HAS_JIT),)
PROGRAMS += $(SOFTGPU_JIT_LIBRARY)
else
.PHONY: softgpu-without-jit
softgpu-without-jit:
	@rm -f $(SOFTGPU_JIT_LIBRARY)   # one of an earlier build, which must not be installed
	@echo '  libsoftgpu-jit.so: left out, since LLVM (llvm-dev, 14 to 19) is not there'
all: softgpu-without-jit
endif
