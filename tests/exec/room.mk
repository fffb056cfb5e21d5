# Unit tests of the executor, through softgpu/engine.h. Each file of EXEC_TEST_NAMES is one program.
EXEC_TEST_NAMES := arithmetic attributes basic blocks brief calls carries children clusters faults forward fragments \
                   fused fused_matrices grids litmus local matrix meeting memory nonsense phases pointers products \
                   progress ranges regions runs streams tables tensors textures together warps wgmma whole
EXEC_TEST_PROGRAMS := $(addprefix $(BUILD)/tests/exec-,$(EXEC_TEST_NAMES))
EXEC_TEST_SUPPORT := $(call objects,tests/exec/harness.c tests/exec/record.c)
# Some again with turns of random length and order, on more threads than cores, and without vector instructions.
EXEC_TEST_CHAOS := $(addprefix $(BUILD)/tests/exec-chaos-,calls children clusters grids memory pointers progress warps \
                     wgmma)
TESTS += $(EXEC_TEST_PROGRAMS) $(EXEC_TEST_CHAOS)
# The handlers that are compiled once per level of the processor, at each level below the one that the processor has.
EXEC_TEST_LEVELS := $(foreach level,base v3,$(BUILD)/tests/exec-fused-$(level) \
                      $(BUILD)/tests/exec-fused_matrices-$(level))
TESTS += $(EXEC_TEST_LEVELS)
$(filter %-base,$(EXEC_TEST_LEVELS)): %-base: %
$(filter %-v3,$(EXEC_TEST_LEVELS)): %-v3: %
$(EXEC_TEST_LEVELS):
	@printf '#!/bin/sh\nFLYT_SOFTGPU_CPU=$(lastword $(subst -, ,$@)) exec $<\n' > $@
	@chmod +x $@
# These tests through the compiler, where LLVM is (softgpu/jit/room.mk): a result that differs from the interpreter's
# fails.
ifeq ($(FLAVOUR)$(SOFTGPU_HAS_JIT),plainyes)
EXEC_TEST_JIT_CHECK := arithmetic forward fused fused_matrices local phases progress ranges regions runs streams \
                       tables together warps
EXEC_TEST_JIT_LONG := basic blocks calls carries children clusters faults fragments grids litmus matrix meeting memory \
                      pointers textures
EXEC_TEST_JIT := $(addprefix $(BUILD)/tests/exec-jit-,$(EXEC_TEST_JIT_CHECK) $(EXEC_TEST_JIT_LONG))
$(EXEC_TEST_JIT): $(BUILD)/tests/exec-jit-%: $(BUILD)/tests/exec-% $(SOFTGPU_JIT_LIBRARY)
	@printf '#!/bin/sh\n: "$${EXEC_TEST_SHARE:=40}"\nexport EXEC_TEST_SHARE FLYT_SOFTGPU_CACHE=off\n' > $@
	@printf 'FLYT_SOFTGPU_JIT=always LD_LIBRARY_PATH=$(BIN) exec $<\n' >> $@
	@chmod +x $@
TESTS += $(addprefix $(BUILD)/tests/exec-jit-,$(EXEC_TEST_JIT_CHECK))
LONG_TESTS += "env EXEC_TEST_SHARE=1 $(BUILD)/tests/exec-jit-fused@600" \
              "env EXEC_TEST_SHARE=1 $(BUILD)/tests/exec-jit-fused_matrices@600" \
              "env EXEC_TEST_SHARE=1 $(BUILD)/tests/exec-jit-forward@600" \
              "env EXEC_TEST_SHARE=1 $(BUILD)/tests/exec-jit-phases@600" \
              "env EXEC_TEST_SHARE=1 $(BUILD)/tests/exec-jit-ranges@600" \
              "env EXEC_TEST_SHARE=1 $(BUILD)/tests/exec-jit-regions@600" \
              "env EXEC_TEST_SHARE=1 $(BUILD)/tests/exec-jit-runs@600" \
              "env EXEC_TEST_SHARE=4 FLYT_SOFTGPU_WHOLE=off $(BUILD)/tests/exec-jit-forward@600" \
              $(addsuffix @600,$(addprefix $(BUILD)/tests/exec-jit-,$(EXEC_TEST_JIT_LONG)))
endif

# Compiled code on disk, of which the compiler's library exports nothing.
ifneq ($(SOFTGPU_HAS_JIT),)
EXEC_TEST_STORE := $(BUILD)/tests/exec-store
$(EXEC_TEST_STORE): $(call objects,tests/exec/store.c softgpu/jit/store.c cpu/code/hash.c)
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) -lcmocka -lb2
TESTS += $(EXEC_TEST_STORE)
TESTS += "tests/exec/kept.py $(BIN) build/cuda/vector_add build/cuda/atomics"
TESTS += "tests/exec/compiling.py $(BIN)"
endif

# ThreadSanitizer does not look at how the accesses of kernels are made (softgpu/exec/access.h), and slows them down
# 50 times.
CFLAGS_tests_exec_whole := $(if $(findstring thread,$(FLAVOUR)),-DPAIRS=2000)

$(EXEC_TEST_CHAOS): $(BUILD)/tests/exec-chaos-%: $(BUILD)/tests/exec-%
	@printf '#!/bin/sh\nEXEC_TEST_CHAOS=20261121 FLYT_SOFTGPU_CPU=base exec $<\n' > $@
	@chmod +x $@

LONG_TESTS += "env EXEC_TEST_PAIRS=1000000 $(BUILD)/tests/exec-whole"

# softgpu/*/room.mk are read before this file.
$(EXEC_TEST_PROGRAMS): $(BUILD)/tests/exec-%: $(BUILD)/tests/exec/%.o $(EXEC_TEST_SUPPORT) $(SOFTGPU_EXEC_OBJECTS) \
    $(SOFTGPU_ALU_OBJECTS) $(SOFTGPU_PTX_OBJECTS) $(call objects,cpu/common/env.c cpu/common/log.c cpu/common/tree.c)
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) -lcmocka $(SOFTGPU_ALU_LIBS) -lm

# The first part of `make bench-softgpu`: thread instructions per second and core.
EXEC_BENCH := $(BUILD)/softgpu-bench
$(EXEC_BENCH): $(call objects,tests/exec/bench.c cpu/common/env.c cpu/common/log.c cpu/common/tree.c) \
    $(SOFTGPU_EXEC_OBJECTS) $(SOFTGPU_ALU_OBJECTS) $(SOFTGPU_PTX_OBJECTS)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) $(SOFTGPU_ALU_LIBS)

# The registers of kernels, as the software GPU estimates them and as ptxas gives them: tests/exec/registers.py.
EXEC_REGISTERS := $(BUILD)/registers-of
$(EXEC_REGISTERS): $(call objects,tests/exec/needs.c cpu/common/env.c cpu/common/log.c cpu/common/tree.c) \
    $(SOFTGPU_EXEC_OBJECTS) $(SOFTGPU_ALU_OBJECTS) $(SOFTGPU_PTX_OBJECTS)
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) $(SOFTGPU_ALU_LIBS) -lm

# Prints the registers of kernels as the driver tells them to programs. Its files may have machine code beside the PTX.
EXEC_REGISTERS_LOADER := $(BUILD)/registers-loaded
$(EXEC_REGISTERS_LOADER): $(BUILD)/tests/softgpu/registers_loaded.o | $(SOFTGPU_LIBRARY)
	$(CC) $(ALL_LDFLAGS) -o $@ $< $(SOFTGPU_LIBRARY) -Wl,-rpath,$(abspath $(BIN))

# A sample of kernels, in make check: the estimate is as near to ptxas as it was.
EXEC_REGISTERS_SAMPLE := $(BUILD)/tests/exec-registers/sample.ptx
$(EXEC_REGISTERS_SAMPLE): tests/exec/registers.cu
	@mkdir -p $(@D)
	$(NVCC) -ptx -O3 -std=c++17 -arch=compute_75 -Wno-deprecated-gpu-targets -o $@ $<
ifeq ($(FLAVOUR),plain)
TESTS += "tests/exec/registers.py --sample --ptxas $(dir $(NVCC))ptxas --program $(EXEC_REGISTERS) \
          --loader $(EXEC_REGISTERS_LOADER) $(EXEC_REGISTERS_SAMPLE)"
endif
