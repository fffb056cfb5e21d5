# Who stalls where for how long over which transport, and what becomes of it: the table of docs/liveness.md (table.py).
LIVENESS_PROGRAMS := build/liveness/backlog build/liveness/stalls
$(LIVENESS_PROGRAMS): build/liveness/%: tests/liveness/%.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $<

# (ThreadSanitizer leaves too little of the address space for client and server to agree on a window.)
$(BUILD)/tests/liveness: tests/liveness/table.py tests/liveness/room.mk $(LIVENESS_PROGRAMS) | $(PROGRAMS)
	$(call script,tests/liveness/table.py $(BIN) $(LIVENESS_PROGRAMS))
ifeq ($(findstring thread,$(FLAVOUR)),)
TESTS      += $(BUILD)/tests/liveness@600
LONG_TESTS += "$(BUILD)/tests/liveness --all --silence 10@3600"
endif
