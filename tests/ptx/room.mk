# Tests of the PTX reader.
PTX_TEST_READ := $(BUILD)/tests/ptx_read
$(PTX_TEST_READ): $(BUILD)/tests/ptx/ptx_read.o $(SOFTGPU_PTX_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $^ $(ALL_LDFLAGS) -o $@
