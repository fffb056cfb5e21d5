# tests/nccl: Flyt's libnccl.so.2, with programs of our own.
$(call objects,tests/nccl/ranks.c): | $(CPU_RPC_HEADERS)
$(BUILD)/tests/nccl_ranks: $(call objects,tests/nccl/ranks.c) | $(NCCL_LIBRARY) $(BIN)/cudart/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN)/nccl -l:libnccl.so.2 -L$(BIN)/cudart -l:libcuda.so.1 \
	    -Wl,--allow-shlib-undefined
TESTS += "tests/nccl/abi.py $(BIN) $(CUDA_HOME)/include /usr/local/include /usr/include"
LONG_TESTS += $(if $(SANITIZE),,"tests/nccl/cluster.py $(BIN) $(BUILD)/tests/nccl_ranks@200")
TESTS += $(if $(SANITIZE),,"tests/nccl/ranks.py $(BIN) $(BUILD)/tests/nccl_ranks@sleeps")
