# A cluster in network namespaces that is struck while programs run (chaos.py). By hand and for longer: README.md here.
build/cuda/cluster_worker: tests/cluster/worker.cu
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $<

CLUSTER_CHAOS := $(addprefix $(BUILD)/tests/cluster-,sqlite sqlite-long mongo-long)
cluster_chaos_sqlite      :=
cluster_chaos_sqlite-long := --all --rounds 3
cluster_chaos_mongo-long  := --all --rounds 2 --database mongo --tls
$(CLUSTER_CHAOS): $(BUILD)/tests/cluster-%: build/cuda/cluster_worker $(wildcard tests/cluster/*.py) \
    tests/cluster/room.mk | $(PROGRAMS)
	$(call script,tests/cluster/chaos.py $(BIN) build/cuda/cluster_worker $(cluster_chaos_$*))
# (ThreadSanitizer leaves too little of the address space for client and server to agree on a window.)
ifeq ($(findstring thread,$(FLAVOUR)),)
TESTS      += $(BUILD)/tests/cluster-sqlite@sleeps,400
# A program that moves between machines whose links are cut: nearly a minute, of which it works for half.
LONG_TESTS += "tests/cluster/moves_cut.py $(BIN) build/cuda/moved all@sleeps,590"
LONG_TESTS += $(addsuffix @sleeps$(comma)1800,$(filter %-long,$(CLUSTER_CHAOS)))
endif
