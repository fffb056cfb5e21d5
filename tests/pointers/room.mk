# Random programs in which functions are reached through pointers: three units of generate.py, compiled with different
# options, in one program. The seeds are fixed: make check-long takes others (batches.py).
POINTERS_NVCC  := $(NVCC) $(CUDA_STD) -cudart shared -gencode arch=compute_75$(comma)code=compute_75 -fmad=false \
                  -Wno-deprecated-gpu-targets -diag-suppress 177 -Itests/pointers
POINTERS_UNITS := optimised debug little
# unit: first seed, programs, options
pointers_optimised := 1 30
pointers_debug     := 1001 140 -G
pointers_little    := 2001 30 -Xcicc -O1

build/pointers/%.cu: tests/pointers/generate.py
	@mkdir -p $(@D)
	tests/pointers/generate.py --unit $* --seed $(word 1,$(pointers_$*)) --programs $(word 2,$(pointers_$*)) > $@
build/pointers/units.cu: tests/pointers/generate.py
	@mkdir -p $(@D)
	tests/pointers/generate.py --list $(POINTERS_UNITS) > $@
build/pointers/main.cu: tests/pointers/main.cu
	@mkdir -p $(@D)
	cp $< $@
build/pointers/%.o: build/pointers/%.cu tests/pointers/common.h
	$(POINTERS_NVCC) $(wordlist 3,9,$(pointers_$*)) -c -o $@ $<
build/cuda/pointers: $(POINTERS_UNITS:%=build/pointers/%.o) build/pointers/units.o build/pointers/main.o
	@mkdir -p $(@D)
	$(POINTERS_NVCC) -o $@ $^

TESTS += "tests/cuda/e2e.py --bin $(BIN) --transport local build/cuda/pointers"
test-programs: build/cuda/pointers
# Every option, chaos and memcheck among them: 10,000 programs.
LONG_TESTS += $(foreach first,10001 20001 30001 40001,"tests/pointers/batches.py --bin $(BIN) --nvcc $(NVCC) --seed \
                $(first) --programs 2500")
