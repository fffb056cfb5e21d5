# Tests of the software GPU: programs linked with libsoftgpu.so as if it were libcuda.so.
TESTS_SOFTGPU := test_contexts test_devices test_faults test_launch test_memcheck test_memory test_modules test_random test_streams test_textures test_vmm
TESTS_SOFTGPU_PROGRAMS := $(addprefix $(BUILD)/tests/softgpu/,$(TESTS_SOFTGPU))

$(TESTS_SOFTGPU_PROGRAMS): $(BUILD)/tests/softgpu/%: $(BUILD)/tests/softgpu/%.o | $(SOFTGPU_LIBRARY)
	$(CC) $(ALL_LDFLAGS) -o $@ $< $(SOFTGPU_LIBRARY) -Wl,-rpath,$(abspath $(BIN)) -lcmocka -lpthread

ifneq ($(filter $(SOFTGPU_LIBRARY),$(PROGRAMS)),)
TESTS += $(TESTS_SOFTGPU_PROGRAMS)
# The same with delayed completions, reordered streams and refused addresses.
TESTS += $(foreach program,$(addprefix $(BUILD)/tests/softgpu/,test_contexts test_launch test_memory test_random test_streams test_textures test_vmm),"env FLYT_SOFTGPU_CHAOS=7 $(program)")
# `env` hides from the top Makefile what is to be built.
run-long-tests test-programs: $(TESTS_SOFTGPU_PROGRAMS)
LONG_TESTS += $(foreach seed,1 2 3 4 5 6 7 8,$(foreach program,$(addprefix $(BUILD)/tests/softgpu/,test_launch test_random test_streams),"env FLYT_SOFTGPU_CHAOS=$(seed) $(program)"))
endif

TESTS += "tests/softgpu/check_ptx.sh $(SOFTGPU_CHECK_PTX) build/cuda/vector_add"

build/cuda/outside: tests/softgpu/outside.cu
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -lineinfo -o $@ $<
TESTS += "tests/softgpu/memcheck.sh $(BIN) build/cuda/outside"

# NVIDIA's libraries, those whose headers are installed.
SOFTGPU_LIBRARY_NAMES := cublas curand cusparse cusolver cudnn
softgpu_library_header = $(firstword $(wildcard $(CUDA_INCLUDE)/$(1).h $(CUDA_INCLUDE)/$(1)Dn.h $(CUDA_INCLUDE)/$(1)_v2.h))
SOFTGPU_LIBRARY_PROGRAMS := $(foreach name,$(SOFTGPU_LIBRARY_NAMES),\
                              $(if $(call softgpu_library_header,$(name)),build/libraries/$(name)))
$(SOFTGPU_LIBRARY_PROGRAMS): build/libraries/%: tests/softgpu/libraries/%.c tests/softgpu/libraries/library.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O1 -Wall -isystem $(CUDA_INCLUDE) -o $@ $< -L$(CUDA_HOME)/lib64 -l$* -lcudart -lm \
	    -Wl,-rpath,$(CUDA_HOME)/lib64
run-long-tests: $(SOFTGPU_LIBRARY_PROGRAMS)
LONG_TESTS += "tests/softgpu/libraries.sh $(BIN) build/libraries $(SOFTGPU_LIBRARY_NAMES) @300"
.PHONY: check-libraries
check-libraries: all $(SOFTGPU_LIBRARY_PROGRAMS)
	tests/softgpu/libraries.sh $(BIN) build/libraries $(SOFTGPU_LIBRARY_NAMES)
