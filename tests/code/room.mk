# tests/code: fat binaries, hashes of images, layouts of kernel parameters.
TESTS_CODE_BINARIES := $(addprefix $(BUILD)/tests/code_,fatbin hash layout)

$(TESTS_CODE_BINARIES): $(BUILD)/tests/code_%: $(BUILD)/tests/code/%.o $(CPU_CODE_OBJECTS) $(CPU_CODE_LAYOUT_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CPU_CODE_LIBS)

TESTS += $(TESTS_CODE_BINARIES) "tests/code/fatbin_nvcc.sh $(BUILD)/tests/code_fatbin $(NVCC)"
