# tests/common: the parts that both ends share.
TESTS_COMMON_BINARIES := $(addprefix $(BUILD)/tests/common_,ids names small lock patch)

# Checked in every build, so that the check itself is tested.
CFLAGS_tests_common_lock := $(if $(CHECKED),,-DFLYT_DEBUG_LOCKS)

$(TESTS_COMMON_BINARIES): $(BUILD)/tests/common_%: $(BUILD)/tests/common/%.o $(CPU_COMMON_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka

TESTS += $(TESTS_COMMON_BINARIES)
