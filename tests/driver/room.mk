# Programs that reach Flyt's libcuda.so.1, and what the user of a program sees that Flyt cannot serve. Not in the
# sanitizer builds: the programs are not instrumented.
ifeq ($(SANITIZE),)
TESTS_DRIVER          := $(BUILD)/tests/driver
TESTS_DRIVER_STATIC   := vector_add calls devices memory numbers occupancy pinned threads
TESTS_DRIVER_PROGRAMS := $(addprefix $(TESTS_DRIVER)/,linked rpath direct alone quiet musl)
TESTS_DRIVER_NVCC      = $(NVCC) -arch=sm_75 -O2 -Wno-deprecated-gpu-targets -o $@ $<

$(TESTS_DRIVER)/static-%: tests/cuda/%.cu tests/cuda/check.h
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart static
$(TESTS_DRIVER)/linked: tests/cuda/vector_add.cu tests/cuda/check.h | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart shared -Xlinker --no-as-needed -L$(BIN)/cudart -l:libcuda.so.1 -Xlinker -rpath-link=$(BIN)
$(TESTS_DRIVER)/rpath: tests/cuda/vector_add.cu tests/cuda/check.h
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart shared -Xlinker --disable-new-dtags \
	    -Xlinker -rpath=$(or $(CUDA_LIBRARIES),$(CUDA_HOME)/lib64)
$(TESTS_DRIVER)/direct: tests/driver/direct.c | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(CC) -O1 -o $@ $< -L$(BIN)/cudart -l:libcuda.so.1 -Wl,-rpath-link=$(BIN)
$(TESTS_DRIVER)/alone $(TESTS_DRIVER)/quiet $(TESTS_DRIVER)/musl:
	@mkdir -p $(@D)
	echo 'int puts(const char *); int main(void) { puts("$(@F)"); return 0; }' | $(CC) -x c -o $@ - \
	    $(if $(filter alone,$(@F)),-static) $(if $(filter musl,$(@F)),-Wl$(comma)--dynamic-linker=/lib/ld-musl-x86_64.so.1)

# The driver API's own rules: contexts, modules, launches, handles that have ended.
$(TESTS_DRIVER)/test_api: $(BUILD)/tests/driver/test_api.o | $(DRIVER_LIBRARY)
	$(CC) $(ALL_LDFLAGS) -o $@ $< -L$(BIN)/cudart -l:libcuda.so.1 -Wl,-rpath,$(abspath $(BIN)/cudart) \
	    -Wl,-rpath-link=$(BIN) -lcmocka -lpthread

$(TESTS_DRIVER)-refused: tests/driver/refused.py $(TESTS_DRIVER_PROGRAMS) | $(PROGRAMS)
	@printf '#!/bin/sh\nexec tests/driver/refused.py %s\n' '$(BIN) $(TESTS_DRIVER)' > $@
	@chmod +x $@
TESTS_DRIVER_COMPARED := $(addprefix $(TESTS_DRIVER)/static-,$(TESTS_DRIVER_STATIC)) \
                         $(addprefix build/cuda/,$(TESTS_DRIVER_STATIC))
$(TESTS_DRIVER)-programs: tests/driver/programs.py $(TESTS_DRIVER)/direct $(TESTS_DRIVER_COMPARED) | $(PROGRAMS)
	@printf '#!/bin/sh\nexec tests/driver/programs.py %s\n' \
	    '$(BIN) $(TESTS_DRIVER) $(CUDA_HOME) build/cuda $(TESTS_DRIVER_STATIC)' > $@
	@chmod +x $@
TESTS += $(TESTS_DRIVER)-refused $(TESTS_DRIVER)-programs $(TESTS_DRIVER)/test_api
endif
