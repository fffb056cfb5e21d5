# Programs that reach Flyt's libcuda.so.1, and what the user of a program sees that Flyt cannot serve. Not in the
# sanitizer builds: the programs are not instrumented.
ifeq ($(SANITIZE),)
TESTS_DRIVER          := $(BUILD)/tests/driver
TESTS_DRIVER_STATIC   := vector_add calls devices ipc memory numbers occupancy pinned threads
TESTS_DRIVER_PROGRAMS := $(addprefix $(TESTS_DRIVER)/,linked rpath direct alone quiet musl)
TESTS_DRIVER_ARCH     := sm_75
TESTS_DRIVER_NVCC      = $(NVCC) $(CUDA_STD) -arch=$(TESTS_DRIVER_ARCH) -O1 -Wno-deprecated-gpu-targets -o $@ $<

$(TESTS_DRIVER)/static-%: tests/cuda/%.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart static
$(addprefix $(TESTS_DRIVER)/static-,dynamic conditions condition_random): TESTS_DRIVER_NVCC += -rdc=true
$(TESTS_DRIVER)/static-ipc: tests/cuda/together.h
$(TESTS_DRIVER)/static-dynamic $(TESTS_DRIVER)/static-conditions: TESTS_DRIVER_NVCC += -rdc=true
# Code that other architectures have: as in tests/cuda/room.mk.
$(TESTS_DRIVER)/static-tiles: TESTS_DRIVER_ARCH := sm_80
$(TESTS_DRIVER)/static-clusters $(TESTS_DRIVER)/static-tensors: TESTS_DRIVER_NVCC += \
    -gencode arch=compute_75,code=compute_75 \
    -gencode arch=compute_90,code=compute_90
$(TESTS_DRIVER)/linked: tests/cuda/vector_add.cu $(CUDA_CHECK) | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart shared -Xlinker --no-as-needed -L$(BIN)/cudart -l:libcuda.so.1 -Xlinker -rpath-link=$(BIN)
$(TESTS_DRIVER)/rpath: tests/cuda/vector_add.cu $(CUDA_CHECK)
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

# It has the name of compute-sanitizer's library, and nothing else.
$(TESTS_DRIVER)/libsanitizer-collection.so:
	@mkdir -p $(@D)
	echo | $(CC) -x c -shared -o $@ -

# Machine code only, which the software GPU refuses: in two images of a library, and in two of a program.
TESTS_DRIVER_REFUSED := $(addprefix $(TESTS_DRIVER)/,refused-static.so refused-shared.so refused)
TESTS_DRIVER_MACHINE  = $(NVCC) $(CUDA_STD) -gencode arch=compute_75,code=sm_75 -Wno-deprecated-gpu-targets \
                        -Xcompiler -fPIC -o $@
$(TESTS_DRIVER)/refused-%.o: tests/driver/machine_code.cu
	@mkdir -p $(@D)
	$(TESTS_DRIVER_MACHINE) -c -DNAME=$* $<
$(TESTS_DRIVER)/refused-%.so: $(TESTS_DRIVER)/refused-first.o $(TESTS_DRIVER)/refused-second.o
	$(TESTS_DRIVER_MACHINE) -shared -cudart $* $^
$(TESTS_DRIVER)/refused: tests/driver/machine_code.cu $(TESTS_DRIVER)/refused-second.o
	@mkdir -p $(@D)
	$(TESTS_DRIVER_MACHINE) -cudart shared -DNAME=first -DPROGRAM $^
.SECONDARY: $(addprefix $(TESTS_DRIVER)/refused-,first.o second.o)

# The driver API's own rules: contexts, modules, launches, handles that have ended.
$(TESTS_DRIVER)/test_%: $(BUILD)/tests/driver/test_%.o | $(DRIVER_LIBRARY)
	$(CC) $(ALL_LDFLAGS) -o $@ $< -L$(BIN)/cudart -l:libcuda.so.1 -Wl,-rpath,$(abspath $(BIN)/cudart) \
	    -Wl,-rpath-link=$(BIN) -lcmocka -lpthread -lm

# What test_linker gives to the linker.
TESTS_DRIVER_LINKED := $(addprefix $(TESTS_DRIVER)/link/linked.,fatbin o a)
$(TESTS_DRIVER)/test_linker: | $(TESTS_DRIVER_LINKED)
$(TESTS_DRIVER)/link/linked.fatbin $(TESTS_DRIVER)/link/linked.o: tests/driver/linked.cu
	@mkdir -p $(@D)
	$(NVCC) -arch=sm_75 -Wno-deprecated-gpu-targets -rdc=true $(if $(filter %.o,$@),-c,-fatbin) -o $@ $<
$(TESTS_DRIVER)/link/linked.a: $(TESTS_DRIVER)/link/linked.o
	rm -f $@
	ar rcs $@ $<
# What links.py gives to nvJitLink, and an nvJitLink that is older than the device.
$(TESTS_DRIVER)/link/lto.fatbin: tests/driver/lto.cu
	@mkdir -p $(@D)
	$(NVCC) -gencode arch=compute_75,code=lto_75 --no-compress -rdc=true -fatbin -o $@ $<
$(TESTS_DRIVER)/libnvJitLink.so.12: tests/driver/old_linker.c
	@mkdir -p $(@D)
	$(CC) -O1 -shared -fPIC -Wl,-soname,$(@F) -o $@ $<

$(TESTS_DRIVER)-refused: tests/driver/refused.py $(TESTS_DRIVER_PROGRAMS) | $(PROGRAMS)
	$(call script,tests/driver/refused.py $(BIN) $(TESTS_DRIVER))
TESTS_DRIVER_COMPARED := $(addprefix $(TESTS_DRIVER)/static-,$(TESTS_DRIVER_STATIC)) \
                         $(addprefix build/cuda/,$(TESTS_DRIVER_STATIC))
$(TESTS_DRIVER)-programs: tests/driver/programs.py $(TESTS_DRIVER)/direct $(TESTS_DRIVER_REFUSED) \
                          $(TESTS_DRIVER)/libsanitizer-collection.so \
                          $(TESTS_DRIVER_COMPARED) | $(PROGRAMS)
$(TESTS_DRIVER)-programs: | $(addprefix $(TESTS_DRIVER)/,link/lto.fatbin libnvJitLink.so.12)
	$(call script,tests/driver/programs.py $(BIN) $(TESTS_DRIVER) $(CUDA_HOME) build/cuda $(TESTS_DRIVER_STATIC))

# A program with more rights than its caller.
$(TESTS_DRIVER)/privileged: tests/driver/privileged.c | $(RUNTIME_LIBRARIES) $(NVML_LIBRARY)
	@mkdir -p $(@D)
	$(CC) -O1 -o $@ $< -L$(BIN)/cudart -l:libcudart.so.13 -l:libnvidia-ml.so.1 -Wl,-rpath-link=$(BIN)
$(TESTS_DRIVER)-setuid: tests/driver/setuid.py $(TESTS_DRIVER)/privileged | $(PROGRAMS)
	$(call script,tests/driver/setuid.py $(BIN) $(TESTS_DRIVER)/privileged)
TESTS += $(TESTS_DRIVER)-setuid

# Programs and plugins that have NVRTC in several ways. What stands for NVRTC here is plugin.c, too.
TESTS_DRIVER_PLUGIN  := $(TESTS_DRIVER)/plugins
TESTS_DRIVER_PLUGINS := $(addprefix $(TESTS_DRIVER_PLUGIN)/,libnvrtc-3.so libnvrtc-5.so plugin3.so plugin5.so \
                          plugin-nvidia.so plugin-above.so plugins plugins-linked plugins-below)
TESTS_DRIVER_NVRTC    = $(or $(CUDA_LIBRARIES),$(CUDA_HOME)/lib64)
$(filter-out %nvidia.so,$(TESTS_DRIVER_PLUGINS)): tests/driver/plugin.c
	@mkdir -p $(@D)
	$(CC) $(plugin_flags) $(if $(filter %.so,$@),-shared -fPIC -Wl$(comma)-soname$(comma)$(@F)) -o $@ $< \
	    -Wl,--no-as-needed,-rpath,'$$ORIGIN' $(filter %.so,$^) -ldl
$(TESTS_DRIVER_PLUGIN)/libnvrtc-3.so: plugin_flags = -DCOMPILER=3
$(TESTS_DRIVER_PLUGIN)/libnvrtc-5.so: plugin_flags = -DCOMPILER=5
$(TESTS_DRIVER_PLUGIN)/plugin%.so: plugin_flags = -DPLUGIN
$(TESTS_DRIVER_PLUGIN)/plugin3.so $(TESTS_DRIVER_PLUGIN)/plugins-linked: $(TESTS_DRIVER_PLUGIN)/libnvrtc-3.so
$(TESTS_DRIVER_PLUGIN)/plugin5.so: $(TESTS_DRIVER_PLUGIN)/libnvrtc-5.so
$(TESTS_DRIVER_PLUGIN)/plugins-below: plugin_flags = -DONLY
$(TESTS_DRIVER_PLUGIN)/plugins-below: $(TESTS_DRIVER_PLUGIN)/plugin3.so
$(TESTS_DRIVER_PLUGIN)/plugin-nvidia.so: tests/driver/plugin.c
	@mkdir -p $(@D)
	[ ! -e $(TESTS_DRIVER_NVRTC)/libnvrtc.so.13 ] || $(CC) -shared -fPIC -DPLUGIN -DNO_NVVM -o $@ $< \
	    -L$(TESTS_DRIVER_NVRTC) -l:libnvrtc.so.13 -l:libnvJitLink.so.13 -Wl,-rpath,$(TESTS_DRIVER_NVRTC)
# What it calls comes with the library that is linked with it: plugin-above.so.
$(TESTS_DRIVER_PLUGIN)/plugin-above.so: plugin_flags = -DABOVE
$(TESTS_DRIVER_PLUGIN)/plugin-below.so: tests/driver/plugin.c
	@mkdir -p $(@D)
	$(CC) -DPLUGIN -shared -fPIC -Wl,-soname,$(@F) -o $@ $<
$(TESTS_DRIVER_PLUGIN)/plugin-above.so: $(addprefix $(TESTS_DRIVER_PLUGIN)/,plugin-below.so libnvrtc-5.so)
$(TESTS_DRIVER)-plugins: tests/driver/plugins.py $(TESTS_DRIVER_PLUGINS) | $(PROGRAMS)
	$(call script,tests/driver/plugins.py $(BIN) $(TESTS_DRIVER_PLUGIN) $(TESTS_DRIVER_NVRTC))
TESTS += $(TESTS_DRIVER)-plugins

# Machines with little but an old C library. The program is one for these, too: its kernels are in a library, because a
# program that this machine links has its constructors called by new C libraries only.
TESTS_DRIVER_BARE := $(TESTS_DRIVER)/bare
$(TESTS_DRIVER_BARE)/%.so: tests/cuda/vector_add.cu $(CUDA_CHECK) | $(RUNTIME_LIBRARIES) $(AGED)
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart $* -Dmain=run -shared -Xcompiler -fPIC -Xlinker -soname=$(@F) $(AGED_LDFLAGS) \
	    -Xlinker --allow-shlib-undefined
$(TESTS_DRIVER_BARE)/static $(TESTS_DRIVER_BARE)/shared: %: %.so
	echo 'int _Z3runv(void); int main(void) { return _Z3runv(); }' | $(CC) -x c -o $@ - -x none $< $(AGED_LDFLAGS) \
	    -Wl,-rpath,'$$ORIGIN' -Wl,--allow-shlib-undefined
$(TESTS_DRIVER_BARE)/musl: $(TESTS_DRIVER)/musl
	@mkdir -p $(@D)
	cp $< $@
$(addprefix $(TESTS_DRIVER_BARE)/,taker asan tsan): tests/driver/sanitized.c
	@mkdir -p $(@D)
	$(CC) -O1 $(sanitized_flags) -o $@ $< -ldl
$(TESTS_DRIVER_BARE)/taker: sanitized_flags := -DTAKER -rdynamic
$(TESTS_DRIVER_BARE)/asan: sanitized_flags := -fsanitize=address
$(TESTS_DRIVER_BARE)/tsan: sanitized_flags := -fsanitize=thread
$(TESTS_DRIVER_BARE)/asan-static: tests/cuda/vector_add.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart static -Xcompiler -fsanitize=address
TESTS_DRIVER_BARE_FILES := $(addprefix $(TESTS_DRIVER_BARE)/,static shared musl taker asan tsan asan-static)
$(TESTS_DRIVER)-alone: tests/driver/alone.py $(TESTS_DRIVER_BARE_FILES) | $(PROGRAMS)
	$(call script,tests/driver/alone.py $(BIN) $(TESTS_DRIVER_BARE))
TESTS += $(TESTS_DRIVER)-alone
LONG_TESTS += "$(TESTS_DRIVER)-alone bullseye bookworm trixie sid"

# With Flyt's runtime only: NVIDIA's takes more than the smallest stack for itself.
$(TESTS_DRIVER)/small_stacks: tests/driver/small_stacks.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart shared
TESTS += $(foreach where,local shm tcp tls,\
    "tests/cuda/e2e.py --bin $(BIN) --transport $(where) $(TESTS_DRIVER)/small_stacks")

# NVIDIA's own runtime as a second reference: the end-to-end programs run with it over our libcuda.so.1, and print what
# they print with Flyt's runtime. Here the toolkit's shared runtime and the quick programs; the long tests run all
# programs, those with the static runtime, and the runtimes of older releases.
TESTS_DRIVER_SECOND := tests/driver/second.py $(BIN)
TESTS_DRIVER_LATEST := --runtime $(or $(CUDA_LIBRARIES),$(CUDA_HOME)/lib64)
TESTS_DRIVER_SLOW   := $(addprefix build/cuda/,apart cancelled held stress lookback many lanes joined litmus pinned \
                       waiting \
                         progress locked memory-rdc memory-plain memory-size memory-lz4 streams-debug reuse-debug)
TESTS_DRIVER_QUICK  := $(filter-out $(TESTS_DRIVER_SLOW),$(CUDA_TEST_PROGRAMS))
$(TESTS_DRIVER)-second: tests/driver/second.py $(CUDA_TEST_PROGRAMS) | $(PROGRAMS)
	$(call script,$(TESTS_DRIVER_SECOND) $(TESTS_DRIVER_LATEST) $(TESTS_DRIVER_QUICK))
TESTS += $(TESTS_DRIVER)-second

# Programs in the launch form of CUDA 11 and 12, linked against ours of that version; NVIDIA's takes its place.
TESTS_DRIVER_OLD := atomics calls errors freed graph_threads memory numbers occupancy pinned reuse sticky streams \
                    threads vector_add warps
TESTS_DRIVER_OLD_RUNTIMES := 11.8 12.4 12.9
$(TESTS_DRIVER)/old/%.o: tests/cuda/%.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -c -D__NV_LEGACY_LAUNCH -Xcompiler -D__NV_LEGACY_LAUNCH
define TESTS_DRIVER_OLD_RULE
$(TESTS_DRIVER)/old/$(1)/%: $(TESTS_DRIVER)/old/%.o | $(RUNTIME_LIBRARIES)
	@mkdir -p $$(@D)
	$$(TESTS_DRIVER_NVCC) -cudart none -L$(BIN)/cudart -l:$(RUNTIME_NODE_$(1)) -Xlinker --allow-shlib-undefined
endef
$(foreach v,11 12,$(eval $(call TESTS_DRIVER_OLD_RULE,$(v))))
.SECONDARY: $(TESTS_DRIVER_OLD:%=$(TESTS_DRIVER)/old/%.o)
# release -> its programs
driver_old = $(addprefix $(TESTS_DRIVER)/old/$(firstword $(subst ., ,$(1)))/,$(TESTS_DRIVER_OLD))
# The same with the static runtimes of older releases. Where they cannot be fetched nothing is linked, and second.py
# skips the programs.
TESTS_DRIVER_OLD_STATIC := 11.8 12.4
define TESTS_DRIVER_OLD_STATIC_RULE
$(TESTS_DRIVER)/old-static/$(1)/%: $(TESTS_DRIVER)/old/%.o | build/cuda-releases/static/$(1)
	@mkdir -p $$(@D)
	[ ! -e build/cuda-releases/static/$(1)/libcudart_static.a ] || \
	    $$(TESTS_DRIVER_NVCC) build/cuda-releases/static/$(1)/libcudart_static.a -cudart none -ldl -lrt -lpthread
build/cuda-releases/static/$(1):
	-tools/cuda-releases --static $(1)
	@mkdir -p $$@
endef
$(foreach r,$(TESTS_DRIVER_OLD_STATIC),$(eval $(call TESTS_DRIVER_OLD_STATIC_RULE,$(r))))
driver_old_static = $(foreach n,$(TESTS_DRIVER_OLD),\
    $(TESTS_DRIVER)/old-static/$(1)/$(n)=$(TESTS_DRIVER)/old/$(firstword $(subst ., ,$(1)))/$(n))
LONG_TESTS += $(foreach r,$(TESTS_DRIVER_OLD_STATIC),\
    "$(TESTS_DRIVER_SECOND) --static --release $(r) $(call driver_old_static,$(r))")
run-long-tests: $(foreach r,$(TESTS_DRIVER_OLD_STATIC),$(TESTS_DRIVER_OLD:%=$(TESTS_DRIVER)/old-static/$(r)/%))
LONG_TESTS += "$(TESTS_DRIVER_SECOND) $(TESTS_DRIVER_LATEST) --all $(CUDA_TEST_PROGRAMS)" \
              "$(TESTS_DRIVER_SECOND) --static \
                  $(foreach n,$(CUDA_TEST_NAMES),$(TESTS_DRIVER)/static-$(n)=build/cuda/$(n))" \
              $(foreach r,$(TESTS_DRIVER_OLD_RUNTIMES),"$(TESTS_DRIVER_SECOND) --runtime \
                  build/cuda-releases/$(r)/nvidia/cuda_runtime/lib $(call driver_old,$(r))")
run-long-tests: $(CUDA_TEST_NAMES:%=$(TESTS_DRIVER)/static-%) $(call driver_old,11.8) $(call driver_old,12.4)

# The software GPU's tests of the driver API, linked with libcuda.so.1 of programs.
TESTS_DRIVER_CONFORMANCE := $(patsubst tests/softgpu/test_%.c,\
    $(TESTS_DRIVER)/conformance/%,$(wildcard tests/softgpu/test_*.c))
$(TESTS_DRIVER)/conformance/%: $(BUILD)/tests/softgpu/test_%.o | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< -L$(BIN)/cudart -l:libcuda.so.1 -Wl,-rpath,$(abspath $(BIN)/cudart) \
	    -Wl,-rpath-link=$(BIN) -lcmocka -lpthread -lm
$(TESTS_DRIVER)-conformance: tests/driver/conformance.py $(TESTS_DRIVER_CONFORMANCE) | $(PROGRAMS)
	$(call script,tests/driver/conformance.py $(TESTS_DRIVER)/conformance $(notdir $(TESTS_DRIVER_CONFORMANCE)))
TESTS += $(TESTS_DRIVER)-conformance

# NVIDIA's libraries, where the toolkit has them.
TESTS_DRIVER_LIBRARIES := $(addprefix $(TESTS_DRIVER)/libraries/,cublas cudnn cufft curand cusolver cusparse nccl)
TESTS_DRIVER_LIBRARIES_AT = $(or $(CUDA_LIBRARIES),$(CUDA_HOME)/lib64)
$(TESTS_DRIVER)/libraries/%: tests/driver/libraries/%.c tests/driver/libraries/library.h
	@mkdir -p $(@D)
	[ ! -e $(TESTS_DRIVER_LIBRARIES_AT)/lib$*.so ] || $(CC) -O1 -isystem $(CUDA_INCLUDE) -o $@ $< \
	    -L$(TESTS_DRIVER_LIBRARIES_AT) \
	    -l$* -lcudart -lm -Wl,-rpath,$(TESTS_DRIVER_LIBRARIES_AT),-rpath-link,$(TESTS_DRIVER_LIBRARIES_AT)
run-long-tests: $(TESTS_DRIVER_LIBRARIES)
LONG_TESTS += "tests/driver/libraries.py $(BIN) $(TESTS_DRIVER_LIBRARIES)"
.PHONY: check-libraries
check-libraries: all $(TESTS_DRIVER_LIBRARIES)
	tests/driver/libraries.py $(BIN) $(TESTS_DRIVER_LIBRARIES)

# What the software GPU shows itself as. Its kernel says for which architecture it was translated.
$(TESTS_DRIVER)/capability: tests/driver/capability.cu
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -cudart shared -Wno-deprecated-gpu-targets -o $@ $< -ldl \
	    $(foreach a,90 120,-gencode arch=compute_$a$(comma)code=compute_$a)
$(TESTS_DRIVER)-capability: tests/driver/capability.py $(TESTS_DRIVER)/capability | $(PROGRAMS)
	$(call script,tests/driver/capability.py $(BIN) $(TESTS_DRIVER)/capability)
TESTS += $(TESTS_DRIVER)-capability

# Files that programs look for.
$(TESTS_DRIVER)-looked-for: tests/driver/looked_for.py $(TESTS_DRIVER_PLUGIN)/libnvrtc-3.so | $(PROGRAMS)
	$(call script,tests/driver/looked_for.py $(BIN) $(TESTS_DRIVER_PLUGIN)/libnvrtc-3.so)
TESTS += $(TESTS_DRIVER)-looked-for

# What is waited for.
TESTS_DRIVER_ROUNDS := $(addprefix $(TESTS_DRIVER)/rounds-,shared static)
$(TESTS_DRIVER_ROUNDS): $(TESTS_DRIVER)/rounds-%: tests/driver/rounds.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -I. -cudart $*
$(TESTS_DRIVER)/rounds-driver: tests/driver/rounds_driver.c tests/lib/must.h | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(CC) -O1 -isystem $(CUDA_INCLUDE) -o $@ $< -L$(BIN)/cudart -l:libcuda.so.1 -Wl,-rpath-link=$(BIN)
$(TESTS_DRIVER)-rounds: tests/driver/rounds.py $(TESTS_DRIVER_ROUNDS) $(TESTS_DRIVER)/rounds-driver | $(PROGRAMS)
	$(call script,tests/driver/rounds.py $(BIN) $(TESTS_DRIVER_ROUNDS) $(TESTS_DRIVER)/rounds-driver)
TESTS += $(TESTS_DRIVER)-rounds

# Programs that end before their work does.
$(TESTS_DRIVER)/ending: tests/driver/ending.cu
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -cudart static
$(TESTS_DRIVER)/ending_late.so: tests/driver/ending.cu
	@mkdir -p $(@D)
	$(TESTS_DRIVER_NVCC) -DLATE -cudart static -shared -Xcompiler -fPIC
$(TESTS_DRIVER)/ending_late: tests/driver/ending_late.c | $(DRIVER_LIBRARY)
	@mkdir -p $(@D)
	$(CC) -O1 -isystem $(CUDA_INCLUDE) -o $@ $< -L$(BIN)/cudart -l:libcuda.so.1 -Wl,-rpath-link=$(BIN)
TESTS_DRIVER_ENDING := $(addprefix $(TESTS_DRIVER)/,ending ending_late ending_late.so)
$(TESTS_DRIVER)-ending: tests/driver/ending.py $(TESTS_DRIVER_ENDING) | $(PROGRAMS)
	$(call script,tests/driver/ending.py $(BIN) $(TESTS_DRIVER_ENDING))
TESTS += $(TESTS_DRIVER)-ending

# Two servers in a row.
TESTS_DRIVER_CHAIN := tests/driver/chain.py $(BIN)
TESTS_DRIVER_CHAINED := $(addprefix build/cuda/,vector_add memory streams sticky pinned printing descriptors) \
                        $(TESTS_DRIVER)/conformance/texrefs
$(TESTS_DRIVER)-chain: tests/driver/chain.py $(CUDA_TEST_PROGRAMS) $(TESTS_DRIVER)/conformance/texrefs | $(PROGRAMS)
	$(call script,$(TESTS_DRIVER_CHAIN) $(TESTS_DRIVER_CHAINED))
TESTS += $(TESTS_DRIVER)-chain "env FLYT_SOFTGPU_DEVICES=2 $(TESTS_DRIVER_CHAIN) build/cuda/peers"
LONG_TESTS += "$(TESTS_DRIVER_CHAIN) $(CUDA_TEST_PROGRAMS)"
# A driver with NVIDIA's rules for code images.
$(TESTS_DRIVER)/strict/libcuda.so.1: $(BUILD)/tests/driver/strict_driver.o $(BUILD)/cpu/code/fatbin.o | $(PROGRAMS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -shared -o $@ $^ -Wl,-soname,libcuda.so.1 -Wl,--no-as-needed -L$(BIN) -l:libsoftgpu.so \
	    -llz4 -lzstd -ldl
TESTS_DRIVER_STRICT := $(addprefix build/cuda/,vector_add linked memory-rdc dynamic loaded_code clusters held joined \
    overtaken pinned_kernels)
$(TESTS_DRIVER)-strict: tests/driver/strict.py $(TESTS_DRIVER)/strict/libcuda.so.1 $(TESTS_DRIVER_STRICT) | $(PROGRAMS)
	$(call script,tests/driver/strict.py $(BIN) $(TESTS_DRIVER)/strict $(TESTS_DRIVER_STRICT))
TESTS += $(TESTS_DRIVER)-strict

# A driver that does not clear.
$(TESTS_DRIVER)-dirty: tests/driver/dirty.py build/cuda/fresh | $(PROGRAMS)
	$(call script,tests/driver/dirty.py $(BIN) build/cuda/fresh)
TESTS += $(TESTS_DRIVER)-dirty

TESTS += $(TESTS_DRIVER)-refused $(TESTS_DRIVER)-programs \
         $(addprefix $(TESTS_DRIVER)/test_,api attributes linker log memory_operations textures)
endif
