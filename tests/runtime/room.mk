# Tests of the CUDA Runtime libraries against a core without a server.
RUNTIME_TEST_DIR  := $(BUILD)/tests/runtime
RUNTIME_TEST_CORE := $(RUNTIME_TEST_DIR)/fake/libflyt-client.so
RUNTIME_TEST_NAMES := runtime device stream graph memory code

RUNTIME_TEST_CORE_OBJECTS := $(call objects,$(wildcard tests/runtime/fake_*.c)) $(call objects,\
    $(addprefix cpu/client/core/,$(addprefix wire/,trace.c trace_value.c pci.c error_log.c gate.c) code/registry.c) \
    $(addprefix cpu/common/,clock.c fd.c log.c env.c ids.c tree.c)) $(GRAPH_OBJECTS)

$(RUNTIME_TEST_CORE): $(RUNTIME_TEST_CORE_OBJECTS)
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $^ -Wl,-soname,libflyt-client.so $(ALL_LDFLAGS)

# $(1): 11, 12 or 13. One program per version, of the library's own objects and the fake core.
define RUNTIME_TEST_RULES
$(RUNTIME_TEST_DIR)-$(1)/%.o: tests/runtime/%.c | $(API_INCLUDED) \
            $(BUILD)/generated/api/cudart$(1)/cudart.h $(BUILD)/generated/api/cudart$(1)/entries.h
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) -DFLYT_CUDART=$(1) -MMD -MP -c $$< -o $$@

$(BUILD)/tests/runtime-api-$(1): $(RUNTIME_TEST_NAMES:%=$(RUNTIME_TEST_DIR)-$(1)/%.o) $(RUNTIME_TEST_CORE_OBJECTS) \
                                 $(call runtime_objects,$(1))
	$$(CC) -o $$@ $$^ -lcmocka $$(ALL_LDFLAGS)

# A program that was linked against the library of this version.
$(BUILD)/tests/runtime/linked$(1): tests/runtime/linked.c $(BIN)/cudart/$(RUNTIME_NODE_$(1))
	@mkdir -p $$(@D)
	$$(CC) -O1 $$(if $$(SANITIZE),-fsanitize=$$(SANITIZE)) -o $$@ $$< -L$(BIN)/cudart -l:$(RUNTIME_NODE_$(1)) \
	    -Wl,--allow-shlib-undefined

TESTS += $(BUILD)/tests/runtime-api-$(1)
endef
$(foreach v,$(RUNTIME_VERSIONS),$(eval $(call RUNTIME_TEST_RULES,$(v))))

# NVIDIA's own libraries, which tools/cuda-releases fetched: of CUDA 11.8 and 12.9.
RUNTIME_REFERENCE := build/cuda-releases/11.8/nvidia/cuda_runtime/lib:build/cuda-releases/12.9/nvidia/cuda_runtime/lib

# $(call runtime_script,name,command,prerequisites): a test that is a script, with what it needs.
define runtime_script
$(BUILD)/tests/$(1): $(3)
	@mkdir -p $$(@D)
	@printf '#!/bin/sh\nexport CC="%s" CUDA_HOME="%s" CUDART_REFERENCE="$$$${CUDART_REFERENCE:-%s}"\nexec %s\n' '$$(CC)' \
	    '$$(CUDA_HOME)' '$(RUNTIME_REFERENCE)' '$(2)' > $$@
	@chmod +x $$@
TESTS += $(BUILD)/tests/$(1)
endef
$(eval $(call runtime_script,runtime-exports,tests/runtime/exports.sh $(BIN),tests/runtime/exports.sh \
    $(RUNTIME_LIBRARIES) $(RUNTIME_PRELOAD)))
# What loads the libraries into programs that are not instrumented is left out of the sanitizer builds.
ifeq ($(SANITIZE),)
$(eval $(call runtime_script,runtime-errors,tests/runtime/errors.py $(BIN) \
    $(RUNTIME_TEST_DIR)/fake,tests/runtime/errors.py $(RUNTIME_LIBRARIES) $(RUNTIME_TEST_CORE)))
$(eval $(call runtime_script,runtime-native,tests/runtime/native.py $(BIN) \
    $(RUNTIME_TEST_DIR)/fake,tests/runtime/native.py tests/runtime/errors.py $(RUNTIME_LIBRARIES) $(RUNTIME_TEST_CORE)))
$(eval $(call runtime_script,runtime-loading,tests/runtime/loading.py $(BIN) $(RUNTIME_TEST_DIR)/fake \
    $(BUILD)/tests/runtime/linked,tests/runtime/loading.py $(RUNTIME_LIBRARIES) $(RUNTIME_PRELOAD) \
    $(RUNTIME_TEST_CORE) $(foreach v,$(RUNTIME_VERSIONS),$(BUILD)/tests/runtime/linked$(v))))
$(eval $(call runtime_script,runtime-trace,tests/runtime/traced.py $(BIN),tests/runtime/traced.py $(RUNTIME_LIBRARIES) \
    $(BIN)/libflyt-client.so $(BIN)/libflyt-server.so $(BIN)/libsoftgpu.so))
endif
$(eval $(call runtime_script,runtime-install,tests/runtime/install.sh $(BIN),tests/runtime/install.sh \
    $(RUNTIME_LIBRARIES) $(BIN)/libflyt-client.so $(BIN)/libflyt-tls.so))

# End-to-end programs in the launch form of CUDA 11 and 12 (cudaLaunchKernel by host address), linked against those
# libraries: what a program of that age asks of them, as far as one toolkit can make it.
RUNTIME_OLD_PROGRAMS := memory threads errors graph_threads
RUNTIME_OLD_BUILT    := $(foreach v,11 12,$(RUNTIME_OLD_PROGRAMS:%=$(BUILD)/tests/runtime/old/%-$(v)))
$(BUILD)/tests/runtime/old/%.o: tests/cuda/%.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -c -arch=sm_75 -O1 -Wno-deprecated-gpu-targets -D__NV_LEGACY_LAUNCH \
	    -Xcompiler -D__NV_LEGACY_LAUNCH -o $@ $<
define RUNTIME_OLD_RULE
$(BUILD)/tests/runtime/old/%-$(1): $(BUILD)/tests/runtime/old/%.o | $(RUNTIME_LIBRARIES)
	$$(NVCC) -cudart none -arch=sm_75 -Wno-deprecated-gpu-targets -o $$@ $$< -L$(BIN)/cudart -l:$(RUNTIME_NODE_$(1)) \
	    -Xlinker --allow-shlib-undefined
endef
$(foreach v,11 12,$(eval $(call RUNTIME_OLD_RULE,$(v))))
.SECONDARY: $(RUNTIME_OLD_PROGRAMS:%=$(BUILD)/tests/runtime/old/%.o)
ifeq ($(SANITIZE),)
$(eval $(call runtime_script,runtime-old,tests/cuda/e2e.py --bin $(BIN) --transport unix --way run \
    $(RUNTIME_OLD_BUILT),$(RUNTIME_OLD_BUILT) | $(PROGRAMS)))
endif
