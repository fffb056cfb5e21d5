# The soak: an ordinary CUDA program that runs CUB's, Thrust's and libcu++'s algorithms for as long as it is told.
# nvcc makes PTX alone of it: without machine code for a GPU it is compiled sooner.
SOAK_FILES   := main cub_scan cub_sort thrust libcu
SOAK_OBJECTS := $(SOAK_FILES:%=build/soak/%.o)
SOAK_FLAGS   := -cudart shared -gencode arch=compute_80,code=compute_80 -O2 -std=c++17 -I. -Wno-deprecated-gpu-targets

$(SOAK_OBJECTS): build/soak/%.o: tests/soak/%.cu tests/soak/soak.h tests/cuda/check.h
	@mkdir -p $(@D)
	$(NVCC) $(SOAK_FLAGS) -c -o $@ $<
build/soak/soak: $(SOAK_OBJECTS)
	$(NVCC) $(SOAK_FLAGS) -o $@ $^

# ThreadSanitizer: as in tests/cuda.
$(BUILD)/tests/soak: tests/soak/soak.py tests/cuda/e2e.py build/soak/soak | $(PROGRAMS)
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/soak/soak.py --bin %s "$$@" build/soak/soak\n' $(BIN) > $@
	@chmod +x $@
ifeq (,$(findstring thread,$(FLAVOUR)))
TESTS      += $(BUILD)/tests/soak
LONG_TESTS += "$(BUILD)/tests/soak --seconds 1200@1800"
endif
