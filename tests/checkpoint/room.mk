# tests/checkpoint: the file of a checkpoint.
$(BUILD)/tests/checkpoint_%: $(call objects,cpu/code/hash.c) $(CPU_CHECKPOINT_OBJECTS) $(CPU_CHECKPOINT_CIPHER) \
                             $(BUILD)/tests/checkpoint/%.o
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CPU_CHECKPOINT_LIBS) -lcrypto
TESTS += $(addprefix $(BUILD)/tests/checkpoint_,file sealed chain)
