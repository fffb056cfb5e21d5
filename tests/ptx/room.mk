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

# The forms of instructions that ptxas accepts. forms.c is linked with all that decodes. Not in the sanitizer builds:
# it is NVIDIA's compiler that takes the time.
PTX_TEST_FORMS := $(BUILD)/tests/ptx_forms
$(PTX_TEST_FORMS): $(call objects,tests/ptx/forms.c cpu/common/env.c cpu/common/log.c cpu/common/tree.c) \
    $(SOFTGPU_EXEC_OBJECTS) $(SOFTGPU_ALU_OBJECTS) $(SOFTGPU_PTX_OBJECTS)
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) $(SOFTGPU_ALU_LIBS) -lm
ifeq ($(SANITIZE),)
TESTS      += "tests/ptx/forms.py $(PTX_TEST_FORMS) $(dir $(NVCC))ptxas @300"
LONG_TESTS += "tests/ptx/forms.py $(PTX_TEST_FORMS) $(dir $(NVCC))ptxas --all @1800"
endif
