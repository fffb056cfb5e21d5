# Tests of CUDA graphs: the model without a server. (End-to-end programs: tests/cuda/graphs.cu, capture.cu and
# graph_random.cu.)
TESTS_GRAPH := $(BUILD)/tests/graph_model
TESTS       += $(TESTS_GRAPH)

# Expanded late: tests/runtime is read after this room.
$(TESTS_GRAPH): $(BUILD)/tests/graph/test_model.o $$(RUNTIME_TEST_CORE_OBJECTS)
	@mkdir -p $(@D)
	$(CC) -o $@ $^ -lcmocka $(ALL_LDFLAGS)

# How many messages a launch is.
$(BUILD)/tests/graph_launches: tests/graph/launches.py tests/cuda/e2e.py build/cuda/graph_kept | $(PROGRAMS)
	$(call script,tests/graph/launches.py --bin $(BIN))
TESTS += $(BUILD)/tests/graph_launches

# Loops of graphs, from outside.
$(BUILD)/tests/graph_conditions: tests/graph/conditions.py tests/cuda/e2e.py build/cuda/conditions | $(PROGRAMS)
	$(call script,tests/graph/conditions.py --bin $(BIN))
TESTS += $(BUILD)/tests/graph_conditions
# And of graphs that launch themselves.
TESTS += "tests/graph/conditions.py --bin $(BIN) build/cuda/device_graphs"

# Node by node, as launches go that the server does not keep.
GRAPH_SINGLE := $(addprefix build/cuda/,graphs graph_kept graph_memory graph_memory_random graph_random \
    capture conditions condition_random device_graphs)
TESTS += "env FLYT_PERF=no_graph tests/cuda/e2e.py --bin $(BIN) --transport shm $(GRAPH_SINGLE)"

# The memory checker has nothing to report of graphs that make no mistake.
TESTS += "env FLYT_SOFTGPU_MEMCHECK=1 FLYT_SOFTGPU_DEVICES=2 tests/cuda/e2e.py --bin $(BIN) --transport shm \
    build/cuda/graph_memory_random"

# Random graphs over all transports, for longer.
GRAPH_LONG := tests/cuda/e2e.py --bin $(BIN) --arguments
LONG_TESTS += $(foreach where,shm unix tcp,"$(GRAPH_LONG) '2 2000' --transport $(where) build/cuda/graph_random") \
              $(foreach where,shm tcp,"$(GRAPH_LONG) '2 300' --transport $(where) build/cuda/condition_random") \
              $(foreach where,shm tcp,"$(GRAPH_LONG) '2 20000' --transport $(where) build/cuda/graph_memory_random") \
              "env FLYT_SOFTGPU_DEVICES=2 $(GRAPH_LONG) '3 2000' --transport shm build/cuda/graph_random" \
              "env FLYT_SOFTGPU_DEVICES=2 $(GRAPH_LONG) '3 20000' --transport shm build/cuda/graph_memory_random"
