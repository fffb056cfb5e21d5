# tests/nccl: Flyt's libnccl.so.2, with programs of our own.
TESTS_NCCL_RANKS := $(call objects,$(addprefix tests/nccl/,ranks.c behind.c children.c ended.c later.c lost.c random.c \
    refused.c sided.c windows.c))
$(TESTS_NCCL_RANKS): | $(CPU_RPC_HEADERS)
$(BUILD)/tests/nccl_ranks: $(TESTS_NCCL_RANKS) | $(NCCL_LIBRARY) $(BIN)/cudart/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN)/nccl -l:libnccl.so.2 -L$(BIN)/cudart -l:libcuda.so.1 \
	    -Wl,--allow-shlib-undefined
# What choice.py runs: whose NCCL a program uses.
$(call objects,tests/nccl/chooses.c tests/nccl/own.c): | $(CPU_RPC_HEADERS)
TESTS_NCCL_OWN := $(BUILD)/tests/nccl_own/libnccl.so.2
$(TESTS_NCCL_OWN): $(call objects,tests/nccl/own.c)
	@mkdir -p $(@D)
	$(CC) -shared $(ALL_LDFLAGS) -o $@ $^ -Wl,-soname,libnccl.so.2
$(BUILD)/tests/nccl_chooses: $(call objects,tests/nccl/chooses.c) | $(NCCL_LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN)/nccl -l:libnccl.so.2 -Wl,--allow-shlib-undefined,-z,lazy
$(BUILD)/tests/nccl_chooses_path: $(call objects,tests/nccl/chooses.c) $(TESTS_NCCL_OWN) | $(NCCL_LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< -L$(BIN)/nccl -l:libnccl.so.2 -Wl,--allow-shlib-undefined,-z,lazy \
	    -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/nccl_own'
TESTS += $(if $(SANITIZE),,"tests/nccl/choice.py $(BIN) $(BUILD)/tests/nccl_chooses \
    $(BUILD)/tests/nccl_chooses_path $(TESTS_NCCL_OWN)")
TESTS += "tests/nccl/abi.py $(BIN) $(CUDA_HOME)/include /usr/local/include /usr/include"
# nccl_tests.py puts NVIDIA's sources there.
build/nccl-tests:
	@mkdir -p $@
LONG_TESTS += $(if $(SANITIZE),,"tests/nccl/nccl_tests.py $(BIN) $(NVCC) build/nccl-tests@600")
LONG_TESTS += $(if $(SANITIZE),,"tests/nccl/nccl_tests.py $(BIN) $(NVCC) build/nccl-tests --processes@600")
LONG_TESTS += $(if $(SANITIZE),,"tests/nccl/cluster.py $(BIN) $(BUILD)/tests/nccl_ranks@200")
TESTS += $(if $(SANITIZE),,"tests/nccl/ranks.py $(BIN) $(BUILD)/tests/nccl_ranks@sleeps")
