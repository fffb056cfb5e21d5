# tests/common: the parts that both ends share.
TESTS_COMMON_BINARIES := $(addprefix $(BUILD)/tests/common_,ids small fatbin)

$(TESTS_COMMON_BINARIES): $(BUILD)/tests/common_%: $(BUILD)/tests/common/%.o $(CPU_COMMON_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CPU_COMMON_LIBS)

TESTS += $(TESTS_COMMON_BINARIES) "tests/common/fatbin_nvcc.sh $(BUILD)/tests/common_fatbin $(NVCC)"
