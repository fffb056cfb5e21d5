# End-to-end programs: compiled by nvcc as a user would, and run through Flyt over each transport.
CUDA_TEST_NAMES    := $(sort $(basename $(notdir $(wildcard tests/cuda/*.cu))))
CUDA_TEST_PROGRAMS := $(addprefix build/cuda/,$(CUDA_TEST_NAMES))
CUDA_TEST_FLAGS    := -cudart shared -arch=sm_75 -O2 -Wno-deprecated-gpu-targets

# NVCCFLAGS_<name> in a comment-free line below gives one program flags of its own.
build/cuda/%: tests/cuda/%.cu tests/cuda/check.h
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) $(NVCCFLAGS_$*) -o $@ $<

.PHONY: cuda-tests e2e-tcp e2e-unix e2e-local
cuda-tests: $(CUDA_TEST_PROGRAMS)

# One test is one server and all programs: $(BUILD)/tests/e2e-<transport>-<way>-<chaos seed, 0: none>
CUDA_TEST_RUNS := e2e-unix-run-0 e2e-tcp-preload-7 e2e-local-run-0
CUDA_TEST_LONG_RUNS := $(foreach seed,1 2 3 4 5,e2e-unix-preload-$(seed) e2e-tcp-run-$(seed))
$(BUILD)/tests/e2e-%: tests/cuda/e2e.py $(CUDA_TEST_PROGRAMS) | $(PROGRAMS)
	@mkdir -p $(@D)
	@set -- $(subst -, ,$*); printf '#!/bin/sh\nexec tests/cuda/e2e.py --bin %s --transport %s --way %s %s %s\n' \
	    $(BIN) $$1 $$2 "$$([ $$3 = 0 ] || echo --chaos $$3)" '$(CUDA_TEST_PROGRAMS)' > $@
	@chmod +x $@
TESTS      += $(addsuffix @400,$(addprefix $(BUILD)/tests/,$(CUDA_TEST_RUNS)))
LONG_TESTS += $(addprefix $(BUILD)/tests/,$(CUDA_TEST_LONG_RUNS))
