# What the daemons share: loop, links, tickets, secrets, configuration.
TESTS_CONTROL_COMMON_UNITS    := loop hostile ticket secret config tls authority map
TESTS_CONTROL_COMMON_BINARIES := $(addprefix $(BUILD)/tests/control_common_,$(TESTS_CONTROL_COMMON_UNITS))
# db_worker.o wants an implementation; these tests have no database.
TESTS_CONTROL_COMMON_OBJECTS  := $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))

$(call objects,$(addprefix tests/control/common_,$(addsuffix .c,peer $(TESTS_CONTROL_COMMON_UNITS)))): \
    | $(CONTROL_COMMON_HEADERS)
$(TESTS_CONTROL_COMMON_BINARIES): $(BUILD)/tests/control_common_%: $(BUILD)/tests/control/common_%.o \
    $(call objects,tests/control/common_peer.c control-managers/common/process.c) $(TESTS_CONTROL_COMMON_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)

TESTS += $(TESTS_CONTROL_COMMON_BINARIES:%_hostile=%_hostile@sleeps)
TESTS += tests/control/common_golden.sh
