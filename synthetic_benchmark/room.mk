# synthetic_benchmark: `make bench` (docs/benchmarks.md). The programs are ordinary CUDA programs with the shared
# runtime.
BENCH_DIR      := build/bench
BENCH_NAMES    := calls moving training benchB benchE benchF benchH benchM benchMem benchR
BENCH_PROGRAMS := $(addprefix $(BENCH_DIR)/,$(BENCH_NAMES))
# Through libcuda.so.1: the Driver API, and a program with NVIDIA's static runtime.
BENCH_PROGRAMS += $(addprefix $(BENCH_DIR)/,driver calls-static)
BENCH_LIMITS   := $(BUILD)/tests/bench_limits
BENCH_LINK     := $(BUILD)/tests/bench_link
BENCH_MOVING   := $(BUILD)/tests/bench_moving_limits
BENCH_FLAGS    ?=

$(BENCH_DIR)/%: synthetic_benchmark/%.cu $(wildcard synthetic_benchmark/*.h)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -cudart shared -arch=sm_75 -O2 -Wno-deprecated-gpu-targets -o $@ $<

$(BENCH_DIR)/calls-static: synthetic_benchmark/calls.cu $(wildcard synthetic_benchmark/*.h)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -cudart static -arch=sm_75 -O2 -Wno-deprecated-gpu-targets -o $@ $<

$(BENCH_DIR)/driver: synthetic_benchmark/driver.c | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(CC) -O2 -isystem $(CUDA_INCLUDE) -o $@ $< -L$(BIN)/cudart -l:libcuda.so.1 -Wl,-rpath-link=$(BIN)

$(BENCH_LIMITS): $(BUILD)/synthetic_benchmark/limits.o
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcrypto

$(BENCH_LINK): $(BUILD)/synthetic_benchmark/link.o
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^

$(BENCH_MOVING): $(BUILD)/synthetic_benchmark/moving_limits.o | $(BIN)/libflyt-client.so
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< -L$(BIN) -lflyt-client -Wl,-rpath,$(abspath $(BIN)) -lzstd

.PHONY: bench bench-programs
bench-programs: $(BENCH_PROGRAMS) $(BENCH_LIMITS) $(BENCH_LINK) $(BENCH_MOVING) $(BUILD)/tests/core_gate
# Later rooms add to these lists.
.SECONDEXPANSION:
bench: bench-programs $$(PROGRAMS) $$(CUDA_TEST_PROGRAMS) $$(LIVENESS_PROGRAMS)
	@synthetic_benchmark/bench.py --bin $(BIN) --limits $(BENCH_LIMITS) $(BENCH_FLAGS)

# Only that the script and every program work, on both devices: no figure is judged.
$(BUILD)/tests/bench_smoke: $(BENCH_PROGRAMS) $(BENCH_LIMITS) $(BENCH_LINK) $$(LIVENESS_PROGRAMS) \
    synthetic_benchmark/room.mk | $(PROGRAMS) $(BENCH_MOVING) $(BUILD)/tests/core_gate
	$(call script,synthetic_benchmark/bench.py --smoke --bin $(BIN) --limits $(BENCH_LIMITS))
TESTS += $(if $(SANITIZE),,$(BUILD)/tests/bench_smoke)
# An all-reduce on the GPUs of one process, through libnccl.so.2; and Gloo's, where libgloo-dev is installed.
BENCH_COLLECTIVES := $(BUILD)/bench-collectives
$(call objects,synthetic_benchmark/collectives.c): | $(CPU_RPC_HEADERS)
$(BENCH_COLLECTIVES): $(call objects,synthetic_benchmark/collectives.c) | $(NCCL_LIBRARY) $(BIN)/cudart/libcuda.so.1
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN)/nccl -l:libnccl.so.2 -L$(BIN)/cudart -l:libcuda.so.1 \
	    -Wl,--allow-shlib-undefined
# Puts beside sends, for comm.py.
BENCH_PUTS := $(BUILD)/bench-puts
$(call objects,synthetic_benchmark/puts.c): | $(CPU_RPC_HEADERS)
$(BENCH_PUTS): $(call objects,synthetic_benchmark/puts.c) | $(NCCL_LIBRARY) $(BIN)/cudart/libcuda.so.1
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN)/nccl -l:libnccl.so.2 -L$(BIN)/cudart -l:libcuda.so.1 \
	    -Wl,--allow-shlib-undefined
$(BUILD)/bench-gloo: synthetic_benchmark/gloo.cc
	$(CXX) -O2 -std=c++14 -o $@ $< -lgloo -pthread
.PHONY: bench-collectives
bench-collectives: $(BENCH_COLLECTIVES) $(if $(wildcard /usr/include/gloo/allreduce.h),$(BUILD)/bench-gloo) \
    $$(PROGRAMS)
	@synthetic_benchmark/collectives.py $(BIN) $^

# The moves need a cluster, and recovery waits for checkpoints.
LONG_TESTS += $(if $(SANITIZE),,"$(BUILD)/tests/bench_smoke --only moves,recovery")
run-long-tests: $(if $(SANITIZE),,$(BUILD)/tests/bench_smoke)

# `make bench-softgpu`: thread instructions per second and core, then whole kernels beside PoCL and OpenMP, and sgemm
# beside OpenBLAS. BENCH_SOFTGPU_FLAGS: of compare.py. What is not installed is left out.
BENCH_SOFTGPU      := build/bench-softgpu
BENCH_SOFTGPU_CC   := $(CC) -std=gnu11 -O3 -march=native -Wall -Wextra
BENCH_CUBLAS       := $(firstword $(wildcard $(CUDA_HOME)/lib64/libcublas.so $(CUDA_HOME)/lib/libcublas.so))
BENCH_OPENCL       := $(and $(wildcard /usr/include/CL/cl.h),$(wildcard /usr/lib/*/libOpenCL.so))
BENCH_OPENBLAS     := $(firstword $(wildcard /usr/include/*/openblas-pthread/cblas.h))
BENCH_SOFTGPU_FORMS := cuda openmp $(if $(BENCH_OPENCL),opencl) $(if $(BENCH_OPENBLAS),openblas) \
                       $(if $(BENCH_CUBLAS),cublas)
BENCH_SOFTGPU_HEADERS := $(wildcard synthetic_benchmark/softgpu/*.h)

$(BENCH_SOFTGPU)/cuda: synthetic_benchmark/softgpu/cuda.cu $(BENCH_SOFTGPU_HEADERS)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -cudart shared -arch=sm_75 -O2 -Wno-deprecated-gpu-targets -o $@ $<
$(BENCH_SOFTGPU)/cublas: synthetic_benchmark/softgpu/cublas.cu $(BENCH_SOFTGPU_HEADERS)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -cudart shared -arch=sm_75 -O2 -Wno-deprecated-gpu-targets -o $@ $< \
	    -L$(dir $(BENCH_CUBLAS)) -lcublas
$(BENCH_SOFTGPU)/openmp: synthetic_benchmark/softgpu/openmp.c $(BENCH_SOFTGPU_HEADERS)
	@mkdir -p $(@D)
	$(BENCH_SOFTGPU_CC) -fopenmp -o $@ $< -lm
$(BENCH_SOFTGPU)/opencl: synthetic_benchmark/softgpu/opencl.c $(BENCH_SOFTGPU_HEADERS)
	@mkdir -p $(@D)
	$(BENCH_SOFTGPU_CC) -o $@ $< -lOpenCL
$(BENCH_SOFTGPU)/openblas: synthetic_benchmark/softgpu/openblas.c $(BENCH_SOFTGPU_HEADERS)
	@mkdir -p $(@D)
	$(BENCH_SOFTGPU_CC) -I$(dir $(BENCH_OPENBLAS)) -o $@ $< -l:libopenblas.so.0

.PHONY: bench-softgpu bench-softgpu-programs
bench-softgpu-programs: $(BENCH_SOFTGPU_FORMS:%=$(BENCH_SOFTGPU)/%)
bench-softgpu: bench-softgpu-programs $$(EXEC_BENCH) $$(PROGRAMS)
	$(EXEC_BENCH)
	synthetic_benchmark/softgpu/compare.py --programs $(BENCH_SOFTGPU) --bin $(BIN) \
	    $(if $(BENCH_CUBLAS),--cublas $(dir $(BENCH_CUBLAS))) $(BENCH_SOFTGPU_FLAGS)

# Public programs that have a CUDA and an OpenMP form: SOURCES holds a checkout of HeCBench. Flags: of forms.py.
# A training step of PyTorch on the software GPU and on the processor; training.py says what it needs.
.PHONY: bench-softgpu-forms bench-softgpu-training
bench-softgpu-forms: $$(PROGRAMS)
	@[ -n "$(SOURCES)" ] || { echo 'bench-softgpu-forms: SOURCES=DIR names the folder that holds HeCBench'; exit 2; }
	synthetic_benchmark/softgpu/forms.py $(SOURCES) $(BENCH_SOFTGPU)/forms --bin $(BIN) $(BENCH_SOFTGPU_FLAGS)
bench-softgpu-training: $$(PROGRAMS)
	synthetic_benchmark/softgpu/training.py --bin $(BIN) $(BENCH_SOFTGPU_FLAGS)
