# tests/comm: communication without CUDA. All over loopback, or in network namespaces that the tests make.
TESTS_COMM_BINARIES := $(addprefix $(BUILD)/tests/comm_,store link attack reduce plans collectives sided \
    sided_hostile together faults)
COMM_UCX_TEST := $(if $(COMM_HAS_UCX),$(BUILD)/tests/comm_ucx)

$(call objects,$(wildcard tests/comm/*.c)): | $(CPU_RPC_HEADERS)

$(addprefix $(BUILD)/tests/comm_,link attack ucx): $(call objects,tests/comm/ends.c)

$(addprefix $(BUILD)/tests/comm_,collectives sided sided_hostile together faults): $(call objects,tests/comm/world.c)

$(TESTS_COMM_BINARIES) $(COMM_UCX_TEST): $(BUILD)/tests/comm_%: $(BUILD)/tests/comm/%.o $(CPU_COMM_OBJECTS) \
    $(CPU_COMM_NEEDS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CPU_COMM_LIBS)

TESTS += $(call sleeping,comm_store comm_link comm_attack comm_collectives comm_sided comm_sided_hostile \
    comm_faults,$(TESTS_COMM_BINARIES))
# By UCX, over its TCP and through memory, where UCX does not notice a peer's end by itself.
# UCX's threads and its hooks of madvise do not go with sanitizers; through memory it keeps what a killed peer left.
COMM_UCX := $(foreach kind,tcp $(if $(SANITIZE),,posix$(comma)sysv$(comma)cma),\
    UCX_TLS=$(kind)$(if $(SANITIZE),;UCX_MEM_EVENTS=n))
TESTS += $(foreach kind,$(COMM_UCX),"env FLYT_TEST_UCX=1 $(subst ;, ,$(kind)) $(BUILD)/tests/comm_link@sleeps")
TESTS += $(if $(COMM_HAS_UCX),$(foreach kind,$(COMM_UCX),"env $(subst ;, ,$(kind)) $(COMM_UCX_TEST)@sleeps"))
TESTS      += $(if $(SANITIZE),,"tests/comm/perf.py $(BIN)" "tests/comm/partition.py $(BIN)@sleeps")
LONG_TESTS += $(if $(COMM_HAS_UCX),$(foreach kind,$(COMM_UCX),$(foreach what,collectives faults,\
    "env FLYT_LINK_TRANSPORT=ucx $(subst ;, ,$(kind)) $(BUILD)/tests/comm_$(what)@sleeps$(comma)300")))
LONG_TESTS += "env FLYT_COMM_FAULTS=300 $(BUILD)/tests/comm_faults@sleeps$(comma)600"
LONG_TESTS += "env FLYT_COMM_RANDOM=10000 FLYT_TEST_ONLY=random* $(BUILD)/tests/comm_collectives@500"
LONG_TESTS += $(if $(SANITIZE),,$(foreach part,ten_thousand_between_processors a_thousand_between_GPUs,\
    "tests/comm/lossy.py $(BIN) $(BUILD)/tests/comm_collectives $(BUILD)/tests/nccl_ranks $(part)@600"))
LONG_TESTS += $(if $(SANITIZE),,"synthetic_benchmark/comm.py --judge $(BIN)@500" \
                "$(BUILD)/tests/comm_copies@500" "$(BUILD)/tests/comm_puts@300")
$(BUILD)/tests/comm_copies: synthetic_benchmark/comm.py build/bench/peer | $(PROGRAMS)
	$(call script,synthetic_benchmark/comm.py --judge --cuda build/bench/peer $(BIN) copy_loopback copy_card)

$(BUILD)/tests/comm_puts: synthetic_benchmark/comm.py $(BUILD)/bench-puts | $(PROGRAMS)
	$(call script,synthetic_benchmark/comm.py --judge --puts $(BUILD)/bench-puts $(BIN) puts)

# With the public header and the library alone.
$(BUILD)/tests/comm_library: $(call objects,tests/comm/library.c) | $(COMM_LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN) -l:libflyt-comm.so -Wl,-rpath,'$$ORIGIN/../../../$(BIN)'
TESTS += $(call sleeping,comm_library,$(BUILD)/tests/comm_library)

# The cluster manager's store.
$(BUILD)/tests/comm_manager_store: $(call objects,tests/comm/manager_store.c) | $(COMM_LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN) -l:libflyt-comm.so -Wl,-rpath,'$$ORIGIN/../../../$(BIN)'
TESTS += $(if $(SANITIZE),,"tests/comm/manager_store.py $(BIN) $(BUILD)/tests/comm_manager_store@sleeps")

# Ranks with buffers of GPUs.
$(BUILD)/tests/comm_device: $(call objects,tests/comm/device.c) | $(COMM_LIBRARY) $(BIN)/cudart/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN) -l:libflyt-comm.so -L$(BIN)/cudart -l:libcuda.so.1 \
	    -Wl,-rpath,'$$ORIGIN/../../../$(BIN)' -Wl,--allow-shlib-undefined
TESTS += $(if $(SANITIZE),,"tests/comm/device.py $(BIN) $(BUILD)/tests/comm_device@sleeps")

$(BUILD)/tests/comm_coordinator: $(call objects,tests/comm/coordinator.c) | $(COORDINATOR_LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN) -l:libflyt-coordinator.so -Wl,-rpath,'$$ORIGIN/../../../$(BIN)'
TESTS += "tests/comm/coordinator.py $(BIN) $(BUILD)/tests/comm_coordinator@sleeps"
