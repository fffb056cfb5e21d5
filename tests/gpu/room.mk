# facts: what a driver really does; run natively on a machine with a GPU (make gpu-check does).
build/gpu/facts: $(wildcard tests/gpu/facts*.c) tests/gpu/facts.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -pthread -isystem $(CUDA_INCLUDE) $(filter %.c,$^) -o $@ -ldl

# open: what NVIDIA's runtime does where documents leave it open.
build/gpu/open: tests/gpu/open.cu
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -cudart shared -arch=sm_75 -O1 -Wno-deprecated-gpu-targets -o $@ $<

# cases: kernels of single instructions and the like, whose results on two drivers are compared: tests/gpu/cases.c.
build/gpu/cases: tests/gpu/cases.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -pthread -isystem $(CUDA_INCLUDE) $< -o $@ -ldl
build/gpu/cases.txt: tests/gpu/cases.py tests/gpu/lanes.py tests/gpu/values.py tests/ptx/forms.py tests/ptx/forms.txt
	tests/gpu/cases.py $(@D) --ptxas $(dir $(NVCC))ptxas
build/gpu/compare.py: tests/gpu/compare.py
	@mkdir -p $(@D)
	cp $< $@

# The launches of the executor's tests, to be run on another driver: those that need no help of the host.
GPU_REPLAYED := attributes basic calls carries clusters faults fragments fused litmus matrix meeting memory pointers \
                progress warps wgmma whole
GPU_RECORDS := $(patsubst %,$(BUILD)/gpu/%.rec,$(GPU_REPLAYED))
$(GPU_RECORDS): $(BUILD)/gpu/%.rec: $(BUILD)/tests/exec-%
	@mkdir -p $(@D)
	@: > $@
	EXEC_TEST_SHARE=40 EXEC_TEST_PAIRS=200 EXEC_TEST_RECORD=$@ $< > /dev/null
build/gpu/replay/cases.txt: tests/gpu/replay.py $(GPU_RECORDS)
	tests/gpu/replay.py $(@D) $(GPU_RECORDS)

.PHONY: gpu-facts gpu-tests
gpu-tests: gpu-facts build/gpu/replay/cases.txt
gpu-facts: build/gpu/facts build/gpu/open build/gpu/cases build/gpu/cases.txt build/gpu/compare.py
