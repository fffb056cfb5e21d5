# Tests of the PTX reader.
PTX_TEST_READ  := $(BUILD)/tests/ptx_read
PTX_TEST_UNITS := constants variables functions instructions link hostile
PTX_TEST_PROGRAMS := $(addprefix $(BUILD)/tests/ptx_,$(PTX_TEST_UNITS))

$(PTX_TEST_READ): $(BUILD)/tests/ptx/ptx_read.o $(BUILD)/tests/ptx/validate.o $(SOFTGPU_PTX_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $^ $(ALL_LDFLAGS) -o $@

$(PTX_TEST_PROGRAMS): $(BUILD)/tests/ptx_%: $(BUILD)/tests/ptx/%.o $(BUILD)/tests/ptx/check.o $(SOFTGPU_PTX_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $^ $(ALL_LDFLAGS) -lcmocka -o $@

TESTS += $(PTX_TEST_PROGRAMS)

# The corpus: CUDA sources compiled to PTX for several architectures, and read.
TESTS      += "tests/ptx/corpus.py $(PTX_TEST_READ) $(NVCC) @600"
LONG_TESTS += "tests/ptx/corpus.py $(PTX_TEST_READ) $(NVCC) --long @900"

# libFuzzer comes with clang only. Without it the script finds no program, and skips.
PTX_FUZZ_CC := $(shell command -v clang)
PTX_FUZZ    := $(BUILD)/tests/ptx_fuzz
PTX_FUZZ_SOURCES := tests/fuzz/ptx_fuzz.c tests/ptx/validate.c $(patsubst $(BUILD)/%.o,%.c,$(SOFTGPU_PTX_OBJECTS))
ifneq ($(PTX_FUZZ_CC),)
$(PTX_FUZZ): $(PTX_FUZZ_SOURCES) $(wildcard softgpu/ptx/*.h tests/ptx/*.h)
	@mkdir -p $(@D)
	$(PTX_FUZZ_CC) -std=c11 -D_GNU_SOURCE -g1 -O1 -I. -fsanitize=fuzzer,address,undefined \
	    -fno-sanitize-recover=undefined $(PTX_FUZZ_SOURCES) -o $@
else
$(PTX_FUZZ): ;
endif
TESTS      += "tests/fuzz/ptx_fuzz.sh $(PTX_FUZZ) 3"
LONG_TESTS += "tests/fuzz/ptx_fuzz.sh $(PTX_FUZZ) 120 @300"
