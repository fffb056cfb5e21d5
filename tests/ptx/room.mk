# Tests of the PTX reader.
PTX_TEST_READ  := $(BUILD)/tests/ptx_read
PTX_TEST_UNITS := constants variables functions instructions later link hostile
PTX_TEST_PROGRAMS := $(addprefix $(BUILD)/tests/ptx_,$(PTX_TEST_UNITS))

PTX_TEST_SAME := $(BUILD)/tests/ptx/same.o $(SOFTGPU_PTX_OBJECTS)

$(PTX_TEST_READ): $(BUILD)/tests/ptx/ptx_read.o $(BUILD)/tests/ptx/validate.o $(PTX_TEST_SAME)
	@mkdir -p $(@D)
	$(CC) $^ $(ALL_LDFLAGS) -o $@

$(PTX_TEST_PROGRAMS): $(BUILD)/tests/ptx_%: $(BUILD)/tests/ptx/%.o $(BUILD)/tests/ptx/check.o $(PTX_TEST_SAME)
	@mkdir -p $(@D)
	$(CC) $^ $(ALL_LDFLAGS) -lcmocka -o $@

TESTS += $(PTX_TEST_PROGRAMS)
# The reader has no threads: ThreadSanitizer finds nothing in it, and slows it down 50 times.
CFLAGS_tests_ptx_hostile := $(if $(findstring thread,$(FLAVOUR)),-DSMALLER=20)

# The corpus: CUDA sources compiled to PTX for several architectures, and read.
TESTS      += "tests/ptx/corpus.py $(PTX_TEST_READ) $(NVCC) @600"
LONG_TESTS += "tests/ptx/corpus.py $(PTX_TEST_READ) $(NVCC) --long @900"
