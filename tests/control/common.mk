# What the daemons share: loop, links, tickets, secrets, configuration.
TESTS_CONTROL_COMMON_UNITS    := loop hostile ticket secret config tls authority
TESTS_CONTROL_COMMON_BINARIES := $(addprefix $(BUILD)/tests/control_common_,$(TESTS_CONTROL_COMMON_UNITS))
# db_worker.o wants an implementation; these tests have no database.
TESTS_CONTROL_COMMON_OBJECTS  := $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))

$(call objects,$(addprefix tests/control/common_,$(addsuffix .c,peer $(TESTS_CONTROL_COMMON_UNITS)))): | $(CONTROL_COMMON_HEADERS)
$(TESTS_CONTROL_COMMON_BINARIES): $(BUILD)/tests/control_common_%: $(BUILD)/tests/control/common_%.o $(call objects,tests/control/common_peer.c) $(TESTS_CONTROL_COMMON_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)

TESTS += $(TESTS_CONTROL_COMMON_BINARIES:%_hostile=%_hostile@sleeps)
TESTS += tests/control/common_golden.sh

# The fuzz target is built and run as those of tests/rpc (FUZZ_FLAGS, TESTS_FUZZ_LINK, TESTS_FUZZ_RUN).
$(BUILD)/fuzz/control: tests/control/common_fuzz.c $(addprefix control-managers/common/,config.c loop_address.c protocol.c) cpu/common/secret.c cpu/common/ticket.c \
                       control-managers/cluster-manager/schema.c cpu/common/wire.c $(wildcard control-managers/common/*.h) \
                       | $(CONTROL_COMMON_HEADERS) $(CONTROL_COMMON_GENERATED)/control_prot_xdr.c
	$(call TESTS_FUZZ_LINK,-I$(CONTROL_COMMON_GENERATED) -luv -lconfig -lcrypto -ltirpc)
TESTS      += "tests/fuzz/rpc_fatbin_run.sh $(BUILD)/fuzz/control 3 $(BUILD)/fuzz/corpus/control"
LONG_TESTS += "tests/fuzz/rpc_fatbin_run.sh $(BUILD)/fuzz/control 300 $(BUILD)/fuzz/corpus/control \
              tests/fuzz/seeds/control.tar.gz"
test-programs run-long-tests: $(BUILD)/fuzz/control
