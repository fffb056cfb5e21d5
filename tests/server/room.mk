# tests/server: the session and the server processes, spoken to by hand.
TESTS_SERVER_COMMS  := comms comms_sided comms_wrong
TESTS_SERVER_UNITS  := session process door software hostile local devices contexts handles host_memory mirror \
                       tenant image_cache lanes pulse graphs knock shares crowd orders bridge direct links \
                       links_ordered links_hostile link_boxes $(TESTS_SERVER_COMMS) code_bombs gifts
TESTS_SERVER_BINARIES := $(addprefix $(BUILD)/tests/server_,$(TESTS_SERVER_UNITS))
TESTS_SERVER_OBJECTS := $(call objects,tests/server/peer.c) $(CPU_SERVER_LOCAL_OBJECTS) $(CPU_SERVER_SESSION_OBJECTS)

# Fewer launches where each is instrumented.
TESTS_SERVER_MANY := $(if $(SANITIZE),100000,1000000)
CFLAGS_tests_server_peer := -DPEER_SERVER='"$(BIN)/cricket-rpc-server"' -DPEER_LIBRARY='"$(BIN)/libflyt-server.so"'
CFLAGS_tests_server_linked := -DLINKED_LIBRARIES='"$(BIN)"'
CFLAGS_tests_server_hostile := -DHOSTILE_SECONDS=3
CFLAGS_tests_server_process := -DPEER_SERVER='"$(BIN)/cricket-rpc-server"' -DPEER_MANY=$(TESTS_SERVER_MANY)
$(call objects,$(addprefix tests/server/,$(addsuffix .c,peer ledger linked linking ranked $(TESTS_SERVER_UNITS) \
    bench))): | $(CPU_RPC_HEADERS)

$(addprefix $(BUILD)/tests/server_,shares tenant orders): $(call objects,tests/server/ledger.c)
$(addprefix $(BUILD)/tests/server_,links links_ordered links_hostile link_boxes $(TESTS_SERVER_COMMS)): \
    $(call objects,tests/server/linked.c)
# and the names of collectives
$(TESTS_SERVER_COMMS:%=$(BUILD)/tests/server_%): $(call objects,tests/server/ranked.c cpu/comm/plan/choose.c)

$(addprefix $(BUILD)/tests/server_,links links_ordered links_hostile link_boxes): \
    $(call objects,tests/server/linking.c) | $(BIN)/libflyt-tls.so

$(BUILD)/tests/server_gifts: $(call objects,cpu/server/listener/dial_worker.c)

TESTS_SERVER_HOSTILE := $(call objects,$(addprefix tests/server/hostile_,$(addsuffix .c,contexts memory copies streams \
                        arrays code forward)))
$(TESTS_SERVER_HOSTILE): | $(CPU_RPC_HEADERS)
$(BUILD)/tests/server_hostile: $(TESTS_SERVER_HOSTILE)

# server_bench is built when asked for.
$(TESTS_SERVER_BINARIES) $(BUILD)/tests/server_bench: $(BUILD)/tests/server_%: $(BUILD)/tests/server/%.o \
    $(TESTS_SERVER_OBJECTS) $(TESTS_STUBS) $$(CPU_SERVER_BASE) | $(BIN)/cricket-rpc-server
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ -lcmocka $(CPU_SERVER_LIBS) -o $@

TESTS_SERVER_SOFTGPU := bridge direct links links_ordered links_hostile link_boxes $(TESTS_SERVER_COMMS) crowd \
                        orders software shares lanes hostile local devices contexts handles host_memory mirror pulse \
                        graphs code_bombs
$(TESTS_SERVER_SOFTGPU:%=$(BUILD)/tests/server_%): | $(BIN)/libsoftgpu.so $(BIN)/libflyt-server.so

$(addprefix $(BUILD)/tests/server_,bridge knock): $(CPU_COMMON_TICKET_OBJECTS)
$(addprefix $(BUILD)/tests/server_,bridge knock): CPU_SERVER_LIBS += -lcrypto

TESTS_SERVER_SLEEPING := server_pulse server_shares server_process server_door server_knock server_software \
                         server_lanes server_direct server_links server_links_ordered server_links_hostile \
                         server_link_boxes $(TESTS_SERVER_COMMS:%=server_%)
TESTS += $(call sleeping,$(TESTS_SERVER_SLEEPING),$(TESTS_SERVER_BINARIES)) \
         "env FLYT_SOFTGPU_CHAOS=11 $(BUILD)/tests/server_software@sleeps" \
         "env HOSTILE_GPU=software $(BUILD)/tests/server_hostile"
