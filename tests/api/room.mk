# Tests of the description of CUDA (cpu/api).
TESTS_API_NVIDIA := --releases build/cuda-releases --include $(CUDA_INCLUDE) --libraries $(CUDA_LIBRARIES)
TESTS += "cpu/api/check.py $(TESTS_API_NVIDIA) --golden tests/api/golden" \
         "tests/api/description.py $(CUDA_INCLUDE)" "cpu/api/coverage.py --check"

ifeq ($(SANITIZE),)
TESTS_API_PROGRAMS := $(addprefix build/cuda/,vector_add memory streams pinned atomics)
$(BUILD)/tests/api-soft: tests/api/soft.py $(BIN)/libsoftgpu.so
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/api/soft.py %s\n' '$(BIN)/libsoftgpu.so $(CUDA_INCLUDE)' > $@
	@chmod +x $@
$(BUILD)/tests/api-wire: tests/api/wire.py $(TESTS_API_PROGRAMS) | $(PROGRAMS)
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/api/wire.py %s\n' '$(BIN) $(TESTS_API_PROGRAMS)' > $@
	@chmod +x $@
TESTS += $(BUILD)/tests/api-soft $(BUILD)/tests/api-wire
endif
