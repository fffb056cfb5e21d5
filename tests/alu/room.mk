# Tests of softgpu/alu: each family against references of its own, in every clone that the processor has.
TESTS_ALU := integer bits float convert convert_small half approx compare video demand seen
TESTS += $(TESTS_ALU:%=$(BUILD)/tests/alu_%)
TESTS_ALU_OBJECTS = $(SOFTGPU_ALU_OBJECTS)
$(TESTS_ALU:%=$(BUILD)/tests/alu_%) $(BUILD)/tests/alu_bench: $(BUILD)/tests/alu_%: $(BUILD)/tests/alu/%.o \
    $(TESTS_ALU_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ -lcmocka $(SOFTGPU_ALU_LIBS) -o $@
