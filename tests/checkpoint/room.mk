# tests/checkpoint: the file of a checkpoint.
$(BUILD)/tests/checkpoint_file: $(call objects,tests/checkpoint/file.c cpu/code/hash.c) $(CPU_CHECKPOINT_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CPU_CHECKPOINT_LIBS)
TESTS += $(BUILD)/tests/checkpoint_file
