# What the user of a program sees that Flyt cannot serve yet. Not in the sanitizer builds: they are not instrumented.
ifeq ($(SANITIZE),)
TESTS_DRIVER          := $(BUILD)/tests/driver
TESTS_DRIVER_PROGRAMS := $(addprefix $(TESTS_DRIVER)/,static linked rpath direct alone quiet musl)
TESTS_DRIVER_NVCC      = $(NVCC) -arch=sm_75 -O2 -Wno-deprecated-gpu-targets -o $@ $<

$(TESTS_DRIVER)/static: tests/cuda/vector_add.cu tests/cuda/check.h
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart static
$(TESTS_DRIVER)/linked: tests/cuda/vector_add.cu tests/cuda/check.h | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart shared -Xlinker --no-as-needed -L$(BIN)/cudart -l:libcuda.so.1
$(TESTS_DRIVER)/rpath: tests/cuda/vector_add.cu tests/cuda/check.h
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart shared -Xlinker --disable-new-dtags \
	    -Xlinker -rpath=$(or $(CUDA_LIBRARIES),$(CUDA_HOME)/lib64)
$(TESTS_DRIVER)/direct: tests/driver/direct.c | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(CC) -O1 -o $@ $< -L$(BIN)/cudart -l:libcuda.so.1
$(TESTS_DRIVER)/alone $(TESTS_DRIVER)/quiet $(TESTS_DRIVER)/musl:
	@mkdir -p $(@D)
	echo 'int puts(const char *); int main(void) { puts("$(@F)"); return 0; }' | $(CC) -x c -o $@ - \
	    $(if $(filter alone,$(@F)),-static) $(if $(filter musl,$(@F)),-Wl$(comma)--dynamic-linker=/lib/ld-musl-x86_64.so.1)

$(TESTS_DRIVER)-refused: tests/driver/refused.py $(TESTS_DRIVER_PROGRAMS) | $(PROGRAMS)
	@printf '#!/bin/sh\nexec tests/driver/refused.py %s\n' '$(BIN) $(TESTS_DRIVER) $(CUDA_HOME)' > $@
	@chmod +x $@
TESTS += $(TESTS_DRIVER)-refused
endif
