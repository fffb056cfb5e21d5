# Tests of the software GPU: programs linked with libsoftgpu.so as if it were libcuda.so.
TESTS_SOFTGPU := test_contexts test_devices test_faults test_launch test_memcheck test_memory test_modules \
                 test_random test_samplers test_streams test_texrefs test_textures test_vmm
TESTS_SOFTGPU_PROGRAMS := $(addprefix $(BUILD)/tests/softgpu/,$(TESTS_SOFTGPU))

$(TESTS_SOFTGPU_PROGRAMS): $(BUILD)/tests/softgpu/%: $(BUILD)/tests/softgpu/%.o | $(SOFTGPU_LIBRARY)
	$(CC) $(ALL_LDFLAGS) -o $@ $< $(SOFTGPU_LIBRARY) -Wl,-rpath,$(abspath $(BIN)) -lcmocka -lpthread -lm

# None of those that tests/driver runs over libcuda.so.1 of programs: one sets the driver's environment, the other makes
# calls that only the software GPU has.
TESTS_SOFTGPU_OWN := $(addprefix $(BUILD)/tests/softgpu/,code_memory shut_memory watched_memory)
$(TESTS_SOFTGPU_OWN): $(BUILD)/tests/softgpu/%: $(BUILD)/tests/softgpu/%.o | $(SOFTGPU_LIBRARY)
	$(CC) $(ALL_LDFLAGS) -o $@ $< $(SOFTGPU_LIBRARY) -Wl,-rpath,$(abspath $(BIN)) -lcmocka -lzstd -lpthread

ifneq ($(filter $(SOFTGPU_LIBRARY),$(PROGRAMS)),)
TESTS += $(TESTS_SOFTGPU_OWN)
TESTS += $(TESTS_SOFTGPU_PROGRAMS)
# The same with delayed completions, reordered streams and refused addresses.
TESTS += $(foreach program,$(addprefix $(BUILD)/tests/softgpu/,test_contexts test_launch test_memory test_random \
    test_streams test_texrefs test_textures test_vmm),"env FLYT_SOFTGPU_CHAOS=7 $(program)")
# And with all code compiled when it runs for the first time.
ifeq ($(FLAVOUR)$(SOFTGPU_HAS_JIT),plainyes)
TESTS_SOFTGPU_JIT := $(filter-out %/test_memcheck,$(TESTS_SOFTGPU_PROGRAMS))
LONG_TESTS += $(foreach program,$(TESTS_SOFTGPU_JIT),"env FLYT_SOFTGPU_JIT=always $(program)@600")
LONG_TESTS += "tests/softgpu/worker_code.py $(BIN) build/cuda/forever@300"
TESTS += "tests/softgpu/worker_statistics.py $(BIN) build/cuda/vector_add"
endif
# `env` hides from the top Makefile what is to be built.
run-long-tests test-programs: $(TESTS_SOFTGPU_PROGRAMS)
LONG_TESTS += $(foreach seed,1 2 3 4 5 6 7 8,\
    $(foreach program,$(addprefix $(BUILD)/tests/softgpu/,test_launch test_random test_streams),\
    "env FLYT_SOFTGPU_CHAOS=$(seed) $(program)"))
endif

TESTS += "tests/softgpu/check_ptx.sh $(SOFTGPU_CHECK_PTX) build/cuda/vector_add"

build/cuda/outside: tests/softgpu/outside.cu
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -lineinfo -o $@ $<
$(BUILD)/tests/softgpu/load_after_fault: tests/softgpu/load_after_fault.c | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -O1 -isystem $(CUDA_INCLUDE) -o $@ $< -L$(BIN)/cudart -l:libcuda.so.1 -Wl,-rpath-link=$(BIN)
TESTS += "tests/softgpu/memcheck.sh $(BIN) build/cuda/outside $(BUILD)/tests/softgpu/load_after_fault"
test-programs: build/cuda/outside $(BUILD)/tests/softgpu/load_after_fault
