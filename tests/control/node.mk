# The node manager and the client manager, with a cluster manager made of the test.
TESTS_CONTROL_NODE_COMMON := $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))
TESTS_CONTROL_NODE_UNITS  := node_manager node_gpus node_folder client_manager
TESTS_CONTROL_NODE_RIG    := $(call objects,tests/control/node_fake.c tests/control/node_rig.c)

$(TESTS_CONTROL_NODE_RIG) $(call objects,$(patsubst %,tests/control/%.c,$(TESTS_CONTROL_NODE_UNITS))): \
    | $(CONTROL_COMMON_HEADERS)
$(addprefix $(BUILD)/tests/control_,$(TESTS_CONTROL_NODE_UNITS)): $(BUILD)/tests/control_%: $(BUILD)/tests/control/%.o \
    $(TESTS_CONTROL_NODE_RIG) $(TESTS_CONTROL_NODE_COMMON) | $(BIN)/flyt-node-manager \
    $(BIN)/flyt-client-manager $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -lcmocka $(CONTROL_COMMON_LIBS)

# A program that uses the client library.
$(BUILD)/tests/control_client_program: $(call objects,tests/control/client_program.c) | $(BIN)/libflyt-client.so
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN) -lflyt-client -Wl,-rpath,$(abspath $(BIN))

TESTS += "$(BUILD)/tests/control_client_manager $(BIN) $(BUILD)/tests/control_client_program"
# Stands in for NVIDIA's libraries.
$(BUILD)/tests/control_node_nvml.so: $(call objects,tests/control/node_nvml.c)
	@mkdir -p $(@D)
	$(CC) -shared $(ALL_LDFLAGS) -o $@ $^
TESTS += "$(BUILD)/tests/control_node_manager $(BIN)@sleeps"
TESTS += "$(BUILD)/tests/control_node_gpus $(BIN) $(BUILD)/tests/control_node_nvml.so@sleeps"

# A disk that is slow; sanitizers want to be loaded first.
$(BUILD)/tests/control_slow_disk.so: $(call objects,tests/control/slow_disk.c)
	@mkdir -p $(@D)
	$(CC) -shared $(ALL_LDFLAGS) -o $@ $^ -ldl
$(BUILD)/tests/control_node_folder: | $(BUILD)/tests/control_slow_disk.so
TESTS += $(if $(SANITIZE),,"$(BUILD)/tests/control_node_folder $(BIN) $(BUILD)/tests/control_slow_disk.so@sleeps")

$(call objects,tests/control/client_wire.c): | $(CONTROL_COMMON_HEADERS) $(CPU_RPC_HEADERS)
$(BUILD)/tests/control_client_wire: $(call objects,tests/control/client_wire.c) $(CPU_RPC_MANAGER_OBJECTS) \
    $(TESTS_CONTROL_NODE_COMMON)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)
$(BUILD)/tests/control_node_ticket: \
    $(call objects,tests/control/node_ticket.c cpu/server/listener/ticket.c cpu/server/tenant/fault.c) \
    $(CPU_COMMON_TICKET_OBJECTS) $(call objects,cpu/common/env.c cpu/common/log.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka -lcrypto
# Links what region.c needs, and no node manager.
$(call objects,tests/control/node_region.c): | $(CONTROL_COMMON_HEADERS)
$(BUILD)/tests/control_node_region: $(call objects,tests/control/node_region.c \
    $(addprefix control-managers/node-manager/,region.c schema.c)) $(TESTS_CONTROL_NODE_COMMON)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_COMMON_LIBS)
TESTS += $(BUILD)/tests/control_client_wire $(BUILD)/tests/control_node_ticket $(BUILD)/tests/control_node_region

# A whole cluster by flyt-local.
TESTS_CONTROL_LOCAL := $(BUILD)/tests/control_local_cluster
$(TESTS_CONTROL_LOCAL): tests/control/local_cluster.py build/cuda/vector_add build/cuda/sticky \
    $(BUILD)/tests/control_client_program | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server \
    $(BIN)/libsoftgpu.so
	$(call script,tests/control/local_cluster.py $(BIN) $(BUILD)/tests/control_client_program \
	    build/cuda/vector_add build/cuda/sticky)
TESTS += $(TESTS_CONTROL_LOCAL)

# A VM's limits in such a cluster.
$(BUILD)/tests/control_limits: tests/control/limits.py tests/cuda/quota.py build/cuda/quota | $(BIN)/flyt-local \
    $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/limits.py $(BIN) build/cuda/quota)
TESTS += $(BUILD)/tests/control_limits@sleeps
# Programs with several GPUs.
$(BUILD)/tests/control_gangs: tests/control/gangs.py tests/cuda/quota.py tests/lib/testlib.py build/cuda/gang \
    | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/gangs.py $(BIN) build/cuda/gang)
TESTS += $(BUILD)/tests/control_gangs@sleeps
$(BUILD)/tests/control_spread: tests/control/spread.py tests/cuda/quota.py tests/lib/testlib.py build/cuda/gang \
    | $(PROGRAMS)
	$(call script,tests/control/spread.py $(BIN) build/cuda/gang)
TESTS += $(BUILD)/tests/control_spread@sleeps
# A VM's share changes while its programs run.
$(BUILD)/tests/control_elastic: tests/control/elastic.py tests/cuda/quota.py tests/lib/testlib.py build/cuda/elastic \
    | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so
	$(call script,tests/control/elastic.py $(BIN) build/cuda/elastic)
TESTS += $(BUILD)/tests/control_elastic@sleeps
LONG_TESTS += "$(BUILD)/tests/control_elastic all@sleeps"
$(BUILD)/tests/control_share_hostile: tests/control/share_hostile.py tests/control/share_liar.py \
    tests/control/elastic.py build/cuda/elastic | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run
	$(call script,tests/control/share_hostile.py $(BIN) build/cuda/elastic)
TESTS += $(BUILD)/tests/control_share_hostile@sleeps
LONG_TESTS += "$(BUILD)/tests/control_share_hostile all@sleeps"
TESTS += tests/control/node_mps.sh

# The same with certificates.
$(BUILD)/tests/control_data_tls: tests/control/data_tls.py build/cuda/vector_add build/cuda/forever \
    | $(BIN)/flyt-local $(BIN)/flytctl $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so \
    $(BIN)/libflyt-tls.so
	$(call script,tests/control/data_tls.py $(BIN) build/cuda/vector_add build/cuda/forever)
TESTS += $(BUILD)/tests/control_data_tls@300
