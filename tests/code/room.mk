# tests/code: fat binaries, hashes of images, layouts of kernel parameters.
TESTS_CODE_BINARIES := $(addprefix $(BUILD)/tests/code_,fatbin hash layout)

$(TESTS_CODE_BINARIES): $(BUILD)/tests/code_%: $(BUILD)/tests/code/%.o $(CPU_CODE_OBJECTS) $(CPU_CODE_LAYOUT_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CPU_CODE_LIBS)

TESTS += $(TESTS_CODE_BINARIES) "tests/code/fatbin_nvcc.sh $(BUILD)/tests/code_fatbin $(NVCC)"

# Files for the linker, which nvcc and ar make.
TESTS_CODE_LINKED := $(addprefix $(BUILD)/tests/code-linked/linked.,o a)
$(BUILD)/tests/code-linked/linked.o: tests/driver/linked.cu
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -arch=sm_75 -Wno-deprecated-gpu-targets -rdc=true -c -o $@ $<
$(BUILD)/tests/code-linked/linked.a: $(BUILD)/tests/code-linked/linked.o
	rm -f $@
	ar rcs $@ $<
$(BUILD)/tests/code_object: $(BUILD)/tests/code/object.o $(CPU_CODE_OBJECTS) | $(TESTS_CODE_LINKED)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(CPU_CODE_LIBS)
TESTS += "$(BUILD)/tests/code_object $(TESTS_CODE_LINKED)"

# The names of kernels, in what nvcc makes.
TESTS_CODE_KERNELS := $(addprefix $(BUILD)/tests/code-kernels/one.,cubin fatbin packed)
$(TESTS_CODE_KERNELS): $(BUILD)/tests/code-kernels/one.%: tests/code/kernels.cu
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -arch=sm_75 -Wno-deprecated-gpu-targets $(if $(filter cubin,$*),-cubin,-fatbin) \
	    $(if $(filter packed,$*),-Xfatbin -compress-all) -o $@ $<
$(BUILD)/tests/code_kernels: $(BUILD)/tests/code/kernels.o $(CPU_CODE_OBJECTS) | $(TESTS_CODE_KERNELS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(CPU_CODE_LIBS)
TESTS += "$(BUILD)/tests/code_kernels $(TESTS_CODE_KERNELS)"
