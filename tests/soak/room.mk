# The soak: an ordinary CUDA program that runs CUB's, Thrust's and libcu++'s algorithms for as long as it is told.
# nvcc makes PTX alone of it: without machine code for a GPU it is compiled sooner. Thrust and CUB's sorting take nvcc a
# minute and more: they are in soak, for check-long, and not in soak-short, for check.
SOAK_SHORT   := main cub_scan libcu
SOAK_FILES   := $(SOAK_SHORT) cub_sort thrust
SOAK_OBJECTS := $(SOAK_FILES:%=build/soak/%.o)
SOAK_FLAGS   := -cudart shared -gencode arch=compute_80,code=compute_80 -O2 -std=c++17 -I. -Wno-deprecated-gpu-targets

$(SOAK_OBJECTS): build/soak/%.o: tests/soak/%.cu tests/soak/soak.h $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(SOAK_FLAGS) -c -o $@ $<
build/soak/soak: $(SOAK_OBJECTS)
build/soak/soak-short: $(SOAK_SHORT:%=build/soak/%.o)
build/soak/soak build/soak/soak-short:
	$(NVCC) $(SOAK_FLAGS) -o $@ $^

# ThreadSanitizer: as in tests/cuda.
$(BUILD)/tests/soak $(BUILD)/tests/soak-short: $(BUILD)/tests/%: tests/soak/soak.py tests/cuda/e2e.py build/soak/% \
                                               | $(PROGRAMS)
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/soak/soak.py --bin %s "$$@" build/soak/$*\n' $(BIN) > $@
	@chmod +x $@
ifeq (,$(findstring thread,$(FLAVOUR)))
TESTS      += $(BUILD)/tests/soak-short
LONG_TESTS += "$(BUILD)/tests/soak --seconds 300@900"
endif
