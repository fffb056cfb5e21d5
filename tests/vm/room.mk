# Virtual machines under QEMU (guest.py, host.py), skipped where none can be had.
VM_PROGRAMS := $(addprefix build/cuda/,vector_add printing reuse numbers sticky errors pinned forever vm_copies) \
               build/bench/benchE
$(BUILD)/tests/vm_criu: build/cuda/moved
build/cuda/vm_copies: tests/vm/copies.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $<
$(BUILD)/tests/vm_%: tests/vm/%.py tests/vm/guest.py tests/vm/host.py tests/vm/memory.py $(VM_PROGRAMS) | $(PROGRAMS)
	$(call script,tests/vm/$*.py --bin $(BIN))
ifeq ($(FLAVOUR),plain)
LONG_TESTS += $(BUILD)/tests/vm_criu@600 tests/vm/libvirt.py@300 $(BUILD)/tests/vm_guide@900 \
              "tests/vm/rdma.py --bin $(BIN)@600"
TESTS += $(BUILD)/tests/vm_rpc@240 $(BUILD)/tests/vm_memory@300 $(BUILD)/tests/vm_cluster@300
endif
