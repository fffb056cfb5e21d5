# Tests of the description of CUDA (cpu/api).
TESTS_API_NVIDIA := --releases build/cuda-releases --include $(CUDA_INCLUDE) --libraries $(CUDA_LIBRARIES)
TESTS += "cpu/api/check.py $(TESTS_API_NVIDIA) --golden tests/api/golden" \
         "tests/api/description.py $(CUDA_INCLUDE)" "cpu/api/coverage.py --check"

ifeq ($(SANITIZE),)
TESTS_API_PROGRAMS := $(addprefix build/cuda/,vector_add memory streams pinned atomics)
$(BUILD)/tests/api-soft: tests/api/soft.py $(BIN)/libsoftgpu.so
	$(call script,tests/api/soft.py $(BIN)/libsoftgpu.so $(CUDA_INCLUDE))
$(BUILD)/tests/api-wire: tests/api/wire.py $(TESTS_API_PROGRAMS) | $(PROGRAMS)
	$(call script,tests/api/wire.py $(BIN) $(TESTS_API_PROGRAMS))
TESTS += $(BUILD)/tests/api-soft $(BUILD)/tests/api-wire
endif
# tools/setup puts the headers and libraries of CUDA releases there.
build/cuda-releases:
	@mkdir -p $@
