# The conformance suite: each chapter of the Runtime API's reference is a program, which prints a line for each case. It
# runs over Flyt's libcudart and over NVIDIA's on Flyt's libcuda, and the lines are compared. Not in the sanitizer
# builds: NVIDIA's runtime is not instrumented.
ifeq ($(SANITIZE),)
CONFORMANCE_SUITE    := $(addprefix tests/conformance/,suite.h native.h) tests/lib/must.h
CONFORMANCE          := build/conformance
CONFORMANCE_CHAPTERS := $(basename $(notdir $(wildcard tests/conformance/runtime/*.cu)))
CONFORMANCE_PROGRAMS := $(CONFORMANCE_CHAPTERS:%=$(CONFORMANCE)/%)
# What waits takes its time.
CONFORMANCE_QUICK    := $(filter-out $(CONFORMANCE)/blocking,$(CONFORMANCE_PROGRAMS))
CONFORMANCE_COMPARE  := tests/conformance/compare.py $(BIN) --runtime $(or $(CUDA_LIBRARIES),$(CUDA_HOME)/lib64)

# What a chapter asks of the compiler beyond the rest.
CONFORMANCE_FLAGS_perthread := --default-stream per-thread
CONFORMANCE_NVCC = $(NVCC) $(CUDA_STD) -arch=sm_75 -O0 -Wno-deprecated-gpu-targets \
    -Xcompiler -Wno-deprecated-declarations -diag-suppress 177,1444 $(CONFORMANCE_FLAGS_$*) -o $@ $<

$(CONFORMANCE)/%: tests/conformance/runtime/%.cu $(CONFORMANCE_SUITE) tests/conformance/gate.h
	@mkdir -p $(@D)
	$(CONFORMANCE_NVCC) -cudart shared

$(BUILD)/tests/conformance: $(addprefix tests/conformance/,compare.py gaps.py) $(CONFORMANCE_PROGRAMS) | $(PROGRAMS)
	$(call script,$(CONFORMANCE_COMPARE) --gaps $(CUDA_INCLUDE) $(CONFORMANCE_QUICK))
TESTS += $(BUILD)/tests/conformance
LONG_TESTS += "$(CONFORMANCE_COMPARE) --all $(CONFORMANCE_PROGRAMS)"
# The chapters of random calls, with more seeds.
LONG_TESTS += $(foreach s,2 3 4 9,"$(CONFORMANCE_COMPARE) --arguments $(s)_1500 \
    $(addprefix $(CONFORMANCE)/,boxes calls moves)")

# All kernels compiled when they run for the first time.
ifeq ($(FLAVOUR)$(SOFTGPU_HAS_JIT),plainyes)
LONG_TESTS += "env FLYT_SOFTGPU_JIT=always $(CONFORMANCE_COMPARE) $(CONFORMANCE_QUICK)@600"
endif

# The Driver API, over Flyt's libcuda and over the software GPU itself.
CONFORMANCE_DRIVER := $(patsubst tests/conformance/%.c,$(CONFORMANCE)/%,$(wildcard tests/conformance/driver/*.c))
CONFORMANCE_DRIVER_SUITE := $(addprefix tests/conformance/,driver.h native.h) tests/lib/must.h
$(CONFORMANCE)/driver/%: tests/conformance/driver/%.c $(CONFORMANCE_DRIVER_SUITE) | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(CC) -O1 -isystem $(CUDA_INCLUDE) -o $@ $< -L$(BIN)/cudart -l:libcuda.so.1 -Wl,-rpath-link=$(BIN)
$(BUILD)/tests/conformance-driver: tests/conformance/compare.py $(CONFORMANCE_DRIVER) | $(PROGRAMS)
	$(call script,tests/conformance/compare.py $(BIN) --driver $(CONFORMANCE_DRIVER))
TESTS += $(BUILD)/tests/conformance-driver
# Over what a GPU with NVIDIA's driver printed.
$(BUILD)/tests/conformance-recorded: tests/conformance/compare.py $(CONFORMANCE_PROGRAMS) | $(PROGRAMS)
	$(call script,tests/conformance/compare.py $(BIN) --recorded tests/conformance/native $(CONFORMANCE_QUICK))
TESTS += $(BUILD)/tests/conformance-recorded
ifeq ($(FLAVOUR)$(SOFTGPU_HAS_JIT),plainyes)
LONG_TESTS += "env FLYT_SOFTGPU_JIT=always tests/conformance/compare.py $(BIN) --driver $(CONFORMANCE_DRIVER)@600"
endif

# The Runtime API over the runtimes of older releases: programs in their launch form, linked against ours of that age.
# Without the chapters whose functions changed between the major versions.
CONFORMANCE_OLD    := 11.8 12.4 12.9
CONFORMANCE_OLD_12 := $(filter-out device graph_edges graph_kernels graph_nodes logs managed,$(CONFORMANCE_CHAPTERS))
CONFORMANCE_OLD_11 := $(filter-out batch current graph library,$(CONFORMANCE_OLD_12))
CONFORMANCE_LACKS_12.4 := $(addprefix $(CONFORMANCE)/12/,batch library moves) # cudaLibrary… and batches are of 12.8
CONFORMANCE_LEGACY := -D__NV_LEGACY_LAUNCH -Xcompiler -D__NV_LEGACY_LAUNCH
define CONFORMANCE_RULE
$(CONFORMANCE)/$(1)/%: tests/conformance/runtime/%.cu $(CONFORMANCE_SUITE) \
                    tests/conformance/gate.h | $(RUNTIME_LIBRARIES)
	@mkdir -p $$(@D)
	$$(CONFORMANCE_NVCC) -cudart none $(CONFORMANCE_LEGACY) -DRUNTIME=$(1) -L$(BIN)/cudart \
	    -l:$(RUNTIME_NODE_$(1)) -Xlinker --allow-shlib-undefined
endef
$(foreach v,11 12,$(eval $(call CONFORMANCE_RULE,$(v))))
# What only CUDA 11 has, over NVIDIA's runtime of 11.8.
CONFORMANCE_REFERENCES := $(CONFORMANCE)/11/references
$(CONFORMANCE_REFERENCES): tests/conformance/runtime/old/references.cu $(CONFORMANCE_SUITE) | $(RUNTIME_LIBRARIES)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -cudart none -arch=sm_75 -O0 -Wno-deprecated-gpu-targets -diag-suppress 177,1444 \
	    $(CONFORMANCE_LEGACY) -DRUNTIME=11 -o $@ $< -L$(BIN)/cudart -l:$(RUNTIME_NODE_11) -Xlinker --allow-shlib-undefined
$(BUILD)/tests/conformance-references: tests/conformance/compare.py $(CONFORMANCE_REFERENCES) | $(PROGRAMS)
	$(call script,tests/conformance/compare.py $(BIN) --runtime build/cuda-releases/11.8/nvidia/cuda_runtime/lib \
	    $(CONFORMANCE_REFERENCES))
TESTS += $(BUILD)/tests/conformance-references
# release -> its programs
conformance_old = $(filter-out $(CONFORMANCE_LACKS_$(1)),$(foreach v,$(firstword $(subst ., ,$(1))),\
    $(CONFORMANCE_OLD_$(v):%=$(CONFORMANCE)/$(v)/%)))
LONG_TESTS += $(foreach r,$(CONFORMANCE_OLD),"tests/conformance/compare.py $(BIN) --runtime \
    build/cuda-releases/$(r)/nvidia/cuda_runtime/lib $(call conformance_old,$(r))")
run-long-tests: $(CONFORMANCE_PROGRAMS) $(call conformance_old,11.8) $(call conformance_old,12.9)
endif
