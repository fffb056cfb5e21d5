# Tests of the client core: its objects with a scripted server in the same process (fake.h).
TESTS_CORE_NAMES   := test_parts test_session test_memory test_copies test_lanes test_streams test_contexts \
                      test_promises test_work test_ops test_gate test_replay
TESTS_CORE_SHARED  := tests/core/isolated.c tests/core/fake.c tests/core/fake_device.c tests/core/work.c
TESTS_CORE_OBJECTS := $(call objects,$(TESTS_CORE_NAMES:%=tests/core/%.c) $(TESTS_CORE_SHARED))
TESTS              += $(TESTS_CORE_NAMES:test_%=$(BUILD)/tests/core_%)

$(TESTS_CORE_OBJECTS): | $(CPU_RPC_HEADERS)

$(BUILD)/tests/core_%: $(BUILD)/tests/core/test_%.o $(call objects,$(TESTS_CORE_SHARED)) $(CORE_OBJECTS) \
    $(CPU_RPC_OBJECTS) $(CPU_CODE_OBJECTS) $(CPU_COMMON_OBJECTS) $(CPU_CHECKPOINT_OBJECTS)
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) $(CPU_CODE_LIBS) $(CPU_CHECKPOINT_LIBS) $(CPU_RPC_LIBS) -lcmocka -ldl

# flyt-run. The libraries are looked for, so they must be there.
$(BUILD)/tests/flyt_run: tests/core/flyt_run.sh | $(BIN)/flyt-run $(BIN)/libflyt-client.so
	$(call script,tests/core/flyt_run.sh $(BIN))
TESTS += $(BUILD)/tests/flyt_run tests/core/cancellation.sh

# The library, as front ends link it, against the real server.
TESTS_CORE_SERVED := $(BUILD)/tests/core_served
$(BUILD)/tests/core_served: $(call objects,tests/core/test_served.c tests/core/isolated.c) | $(BIN)/libflyt-client.so \
    $(BIN)/libflyt-server.so $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) -L$(BIN) -lflyt-client -Wl,-rpath,$(abspath $(BIN)) -lcmocka
TESTS_CORE_MODES  := local unix tcp
TESTS += $(foreach m,$(TESTS_CORE_MODES),"$(TESTS_CORE_SERVED) $m $(BIN)/cricket-rpc-server")
# A session that moves between two of them.
TESTS_CORE_MOVES := $(BUILD)/tests/core_moves
# With ThreadSanitizer only the program counts, for which bridge and direct are the same as unix and tcp.
TESTS_CORE_MOVES_MODES := unix tcp $(if $(findstring thread,$(SANITIZE)),,bridge direct)
TESTS_CORE_TWO_SERVERS := $(call objects,tests/core/isolated.c tests/core/two_servers.c cpu/common/fd_message.c \
                          cpu/common/share_order.c)
$(call objects,tests/core/test_moves.c): | $(API_INCLUDED)
$(BUILD)/tests/core_moves: $(call objects,tests/core/test_moves.c) $(TESTS_CORE_TWO_SERVERS) | \
    $(BIN)/libflyt-client.so $(BIN)/libflyt-server.so $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) -L$(BIN) -lflyt-client -Wl,-rpath,$(abspath $(BIN)) -lcmocka
TESTS += $(foreach m,$(TESTS_CORE_MOVES_MODES),"$(TESTS_CORE_MOVES) $m $(BIN)/cricket-rpc-server")
TESTS += $(foreach m,$(filter unix,$(TESTS_CORE_MODES)),"$(TESTS_CORE_MOVES) $m $(BIN)/cricket-rpc-server suspend")
LONG_TESTS += $(foreach m,$(filter tcp,$(TESTS_CORE_MODES)),"$(TESTS_CORE_MOVES) $m $(BIN)/cricket-rpc-server suspend")
# A session whose server is killed.
TESTS_CORE_RECOVERY := $(BUILD)/tests/core_recovery
$(call objects,tests/core/test_recovery.c): | $(API_INCLUDED)
$(TESTS_CORE_RECOVERY): $(call objects,tests/core/test_recovery.c cpu/common/clock.c) $(TESTS_CORE_TWO_SERVERS) | \
    $(BIN)/libflyt-client.so $(BIN)/libflyt-server.so $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) -L$(BIN) -lflyt-client -Wl,-rpath,$(abspath $(BIN)) -lcmocka -lpthread
# Not with ThreadSanitizer: where the machine is busy, workers take longer to begin there than programs wait for them.
TESTS += $(if $(findstring thread,$(SANITIZE)),,$(foreach m,$(filter-out local,$(TESTS_CORE_MODES)),\
    "$(TESTS_CORE_RECOVERY) $m $(BIN)/cricket-rpc-server"))
LONG_TESTS += $(if $(SANITIZE),,$(foreach m,$(filter unix,$(TESTS_CORE_MODES)),\
    "$(TESTS_CORE_RECOVERY) $m $(BIN)/cricket-rpc-server long@600"))
# The same, where the journal begins with checkpoints.
TESTS_CORE_KEEPER := $(BUILD)/tests/core_keeper
$(TESTS_CORE_KEEPER): $(call objects,tests/core/test_keeper.c cpu/common/clock.c) $(TESTS_CORE_TWO_SERVERS) | \
    $(BIN)/libflyt-client.so $(BIN)/libflyt-server.so $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so \
    $(BIN)/libflyt-tls.so
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) -L$(BIN) -lflyt-client -Wl,-rpath,$(abspath $(BIN)) -lcmocka
LONG_TESTS += $(foreach m,$(filter-out local,$(TESTS_CORE_MODES)),"$(TESTS_CORE_KEEPER) $m $(BIN)/cricket-rpc-server")
# Programs of libcuda.so.1: with several threads, which are inside calls; with objects of all kinds.
TESTS_CORE_MOVES_CUDA := test_moves_threads test_moves_objects test_moves_kinds test_moves_rounds test_moves_code
# Programs that share memory.
TESTS_CORE_MOVES_GROUPS := test_moves_group test_moves_group_rests test_moves_group_random
TESTS_CORE_MOVES_SOURCES := $(TESTS_CORE_MOVES_CUDA) test_moves_settings $(TESTS_CORE_MOVES_GROUPS)
$(call objects,$(TESTS_CORE_MOVES_SOURCES:%=tests/core/%.c) $(addprefix tests/core/,moved_worker.c moved_group.c)): | \
    $(API_INCLUDED) $(BUILD)/generated/api/driver/gate_calls.inc
$(BUILD)/tests/core_moves_kinds: $(call objects,tests/core/moved_worker.c)
$(TESTS_CORE_MOVES_GROUPS:test_%=$(BUILD)/tests/core_%): $(call objects,tests/core/moved_group.c)
$(TESTS_CORE_MOVES_SOURCES:test_%=$(BUILD)/tests/core_%): $(BUILD)/tests/core_%: $(BUILD)/tests/core/test_%.o \
    $(TESTS_CORE_TWO_SERVERS) | $(BIN)/libflyt-tls.so \
    $(BIN)/cudart/libcuda.so.1 $(BIN)/libflyt-server.so $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) $(BIN)/cudart/libcuda.so.1 -L$(BIN) -lflyt-client \
	    -Wl,-rpath,$(abspath $(BIN)/cudart):$(abspath $(BIN)) -lcmocka -lpthread
TESTS += $(foreach t,$(TESTS_CORE_MOVES_CUDA:test_%=core_%),$(foreach m,$(TESTS_CORE_MOVES_MODES),\
    "$(BUILD)/tests/$t $m $(BIN)/cricket-rpc-server"))
TESTS += $(foreach m,$(filter unix,$(TESTS_CORE_MODES)),\
    "$(BUILD)/tests/core_moves_objects $m $(BIN)/cricket-rpc-server suspend")
TESTS += $(if $(SANITIZE),,"$(BUILD)/tests/core_moves_kinds mixed $(BIN)/cricket-rpc-server")
TESTS += $(foreach m,$(filter unix,$(TESTS_CORE_MODES)),\
    "$(BUILD)/tests/core_moves_settings $m $(BIN)/cricket-rpc-server" \
    "$(BUILD)/tests/core_moves_settings $m $(BIN)/cricket-rpc-server suspend")
TESTS += $(foreach m,$(filter unix tcp,$(TESTS_CORE_MODES)),\
    "$(BUILD)/tests/core_moves_group $m $(BIN)/cricket-rpc-server")
TESTS += $(foreach m,$(filter unix,$(TESTS_CORE_MODES)),$(foreach t,group_rests group_random,\
    "$(BUILD)/tests/core_moves_$t $m $(BIN)/cricket-rpc-server"))
LONG_TESTS += $(foreach m,$(filter unix tcp,$(TESTS_CORE_MODES)),$(foreach t,group group_rests,\
    "env FLYT_SOFTGPU_CHAOS=5 $(BUILD)/tests/core_moves_$t $m $(BIN)/cricket-rpc-server"))
# More seeds, by each way; one with chaos.
LONG_TESTS += $(if $(SANITIZE),,$(foreach s,unix:2 tcp:8 unix:14 tcp:20,\
    "$(if $(filter tcp:20,$s),env FLYT_SOFTGPU_CHAOS=5) $(BUILD)/tests/core_moves_group_random $(subst :, \
     $(BIN)/cricket-rpc-server ,$s) 6@600"))
# Without what moves are quicker by: bytes pass through the program's process, calls order their memory themselves, and
# threads that wait sleep at once.
TESTS += $(foreach m,$(filter direct,$(TESTS_CORE_MOVES_MODES)),\
    "env FLYT_PERF=no_direct,no_spin $(TESTS_CORE_MOVES) $m $(BIN)/cricket-rpc-server" \
    "env FLYT_PERF=no_membarrier,no_spin $(BUILD)/tests/core_moves_threads $m $(BIN)/cricket-rpc-server")
# Random programs: 96 more seeds, eight at a time, by each way; some with chaos.
TESTS_CORE_MOVES_SLICES := unix:2 tcp:10 mixed:18 bridge:26 direct:34 unix:42 tcp:50 mixed:58 bridge:66 direct:74 \
                           mixed:82 direct:90
LONG_TESTS += $(if $(SANITIZE),,$(foreach s,$(TESTS_CORE_MOVES_SLICES),\
    "$(if $(filter mixed:82 direct:90,$s),env FLYT_SOFTGPU_CHAOS=5) $(BUILD)/tests/core_moves_kinds $(subst :, \
     $(BIN)/cricket-rpc-server ,$s) 8@600"))
LONG_TESTS += $(if $(SANITIZE),,$(foreach m,$(filter-out local,$(TESTS_CORE_MODES)),\
    "$(BUILD)/tests/core_moves_kinds $m $(BIN)/cricket-rpc-server 1 8 lose@600"))
# CUDA programs that a preloaded library moves all the time.
TESTS_CORE_MOVER := $(BUILD)/tests/libmover.so
$(TESTS_CORE_MOVER): $(call objects,tests/core/mover.c)
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $^ $(ALL_LDFLAGS) -ldl -lpthread
TESTS_CORE_MOVED := $(addprefix build/cuda/,arrays textures managed graph_random dynamic threads device_graphs)
$(BUILD)/tests/core_moved: tests/core/moved.py tests/cuda/e2e.py $(TESTS_CORE_MOVED) build/cuda/moved_graphs \
                           | $(TESTS_CORE_MOVER) $(PROGRAMS)
	$(call script,tests/core/moved.py --bin $(BIN) --mover $(TESTS_CORE_MOVER) $(TESTS_CORE_MOVED) \
	    build/cuda/moved_graphs:20)
TESTS += $(if $(SANITIZE),,$(BUILD)/tests/core_moved)
# With a full GPU: a move copies for longer than such a program takes otherwise.
LONG_TESTS += $(if $(SANITIZE),,$(foreach t,unix tcp,"tests/core/moved.py --bin $(BIN) --mover $(TESTS_CORE_MOVER) \
    --transport $t --least 0 --limit 300 build/cuda/exhaustion@600"))
run-long-tests: $(if $(SANITIZE),,$(TESTS_CORE_MOVER) build/cuda/exhaustion)
# The same with every copy over lanes.
TESTS += $(if $(findstring tcp,$(TESTS_CORE_MODES)),\
    "env FLYT_LANES=3:1 $(TESTS_CORE_SERVED) tcp $(BIN)/cricket-rpc-server")
# The gate: each entry of each library that front ends give to programs (0: libcuda.so.1).
TESTS_GATE_LIBRARY_0 := $(BIN)/cudart/libcuda.so.1
$(foreach v,$(RUNTIME_VERSIONS),$(eval TESTS_GATE_LIBRARY_$v := $(BIN)/cudart/$(RUNTIME_NODE_$v)))
# $(1): 0, 11, 12 or 13
define TESTS_GATE_RULES
$(BUILD)/tests/gate-entries-$(1): tests/core/gate_entries.c cpu/client/core/api_gate.h \
    $(BUILD)/generated/api/$(if $(filter 0,$(1)),driver,cudart$(1))/gate_calls.inc | $(TESTS_GATE_LIBRARY_$(1)) \
    $(API_INCLUDED)
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) -Wno-missing-prototypes -Wno-redundant-decls -DGATE_RUNTIME=$(1) -o $$@ $$< $$(ALL_LDFLAGS) \
	    $(TESTS_GATE_LIBRARY_$(1)) -L$(BIN) -lflyt-client -Wl,-rpath,$(abspath $(BIN)/cudart):$(abspath $(BIN)) -lpthread
TESTS += $(BUILD)/tests/gate-entries-$(1)
endef
$(foreach v,0 11 12 13,$(eval $(call TESTS_GATE_RULES,$v)))
