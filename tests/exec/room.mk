# Unit tests of the executor, through softgpu/engine.h. Each file of EXEC_TEST_NAMES is one program.
EXEC_TEST_NAMES := basic calls carries children clusters faults fragments grids litmus matrix memory progress \
                   tensors textures warps wgmma whole
EXEC_TEST_PROGRAMS := $(addprefix $(BUILD)/tests/exec-,$(EXEC_TEST_NAMES))
EXEC_TEST_SUPPORT := $(call objects,tests/exec/harness.c)
# Some again with turns of random length and order, on more threads than cores, and without vector instructions.
EXEC_TEST_CHAOS := $(addprefix $(BUILD)/tests/exec-chaos-,calls children clusters grids memory progress warps wgmma)
TESTS += $(EXEC_TEST_PROGRAMS) $(EXEC_TEST_CHAOS)

$(EXEC_TEST_CHAOS): $(BUILD)/tests/exec-chaos-%: $(BUILD)/tests/exec-%
	@printf '#!/bin/sh\nEXEC_TEST_CHAOS=20261121 FLYT_SOFTGPU_CPU=base exec $<\n' > $@
	@chmod +x $@

LONG_TESTS += "env EXEC_TEST_PAIRS=10000000 $(BUILD)/tests/exec-whole"

# softgpu/*/room.mk are read before this file.
$(EXEC_TEST_PROGRAMS): $(BUILD)/tests/exec-%: $(BUILD)/tests/exec/%.o $(EXEC_TEST_SUPPORT) $(SOFTGPU_EXEC_OBJECTS) $(SOFTGPU_ALU_OBJECTS) $(SOFTGPU_PTX_OBJECTS) $(call objects,cpu/common/env.c cpu/common/log.c cpu/common/tree.c)
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) -lcmocka $(SOFTGPU_ALU_LIBS) -lm

# `make bench-softgpu` prints thread instructions per second and core.
EXEC_BENCH := $(BUILD)/softgpu-bench
$(EXEC_BENCH): $(call objects,softgpu/exec/bench.c cpu/common/env.c cpu/common/log.c cpu/common/tree.c) $(SOFTGPU_EXEC_OBJECTS) $(SOFTGPU_ALU_OBJECTS) $(SOFTGPU_PTX_OBJECTS)
	$(CC) -o $@ $^ $(ALL_LDFLAGS) $(SOFTGPU_ALU_LIBS)
.PHONY: bench-softgpu
bench-softgpu: $(EXEC_BENCH)
	$(EXEC_BENCH)

# The fuzz target: every object is compiled for it, by clang (tests/rpc/room.mk: FUZZ_FLAGS), where there is one.
EXEC_FUZZ := $(BUILD)/fuzz/exec
ifneq ($(shell command -v clang),)
EXEC_FUZZ_FLAGS = $(subst -fsanitize=fuzzer,-fsanitize=fuzzer-no-link,$(FUZZ_FLAGS))
EXEC_FUZZ_OBJECTS := $(patsubst $(BUILD)/%.o,$(BUILD)/fuzz/objects/%.o,\
                       $(call objects,tests/fuzz/exec.c cpu/common/env.c cpu/common/log.c cpu/common/tree.c) \
                       $(SOFTGPU_EXEC_OBJECTS) $(SOFTGPU_ALU_OBJECTS) $(SOFTGPU_PTX_OBJECTS))
$(BUILD)/fuzz/objects/%.o: %.c
	@mkdir -p $(@D)
	$(FUZZ_CC) $(EXEC_FUZZ_FLAGS) -MMD -MP -c $< -o $@
define exec_fuzz_clone_rule
$$(BUILD)/fuzz/objects/%.$(1).o: %.c
	@mkdir -p $$(@D)
	$$(FUZZ_CC) $$(EXEC_FUZZ_FLAGS) -fno-trapping-math -fno-math-errno -DSG_CLONE_LEVEL=$(1) \
	    $$(SOFTGPU_CLONE_$(1)) -MMD -MP -c $$< -o $$@
endef
$(foreach level,$(SOFTGPU_CLONE_LEVELS),$(eval $(call exec_fuzz_clone_rule,$(level))))
$(EXEC_FUZZ): $(EXEC_FUZZ_OBJECTS)
	$(FUZZ_CC) $(FUZZ_FLAGS) $^ -lm -o $@
else
$(EXEC_FUZZ):
	@mkdir -p $(@D)
	@echo 'no libFuzzer' > $@
endif
# Only with the long tests: its objects take minutes to compile.
LONG_TESTS += "tests/fuzz/rpc_fatbin_run.sh $(EXEC_FUZZ) 300 $(BUILD)/fuzz/corpus/exec tests/fuzz/seeds/exec.tar.gz"
