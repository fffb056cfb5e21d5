# End-to-end programs: compiled by nvcc as a user would, and run through Flyt over each transport.
#
# Each NAME.cu is a program. CUDA_TEST_VARIANTS are the same sources compiled otherwise: name-variant.
CUDA_CHECK         := tests/cuda/check.h tests/lib/must.h
CUDA_TEST_FLAGS    = $(CUDA_STD) -cudart shared -arch=sm_75 -O1 -Wno-deprecated-gpu-targets
CUDA_TEST_NAMES    := $(filter-out forever,$(sort $(basename $(notdir $(wildcard tests/cuda/*.cu)))))
CUDA_TEST_VARIANTS := memory-rdc memory-plain memory-size vector_add-legacy streams-debug reuse-debug threads-perthread
# CUDA 12.8 and later
CUDA_TEST_VARIANTS += $(if $(shell $(NVCC) --help 2>/dev/null | grep -e --compress-mode),memory-lz4)
CUDA_TEST_PROGRAMS := $(addprefix build/cuda/,$(CUDA_TEST_NAMES) $(CUDA_TEST_VARIANTS) linked libraries differ)

cuda_flags_rdc       := -rdc=true
cuda_flags_plain     := -Xfatbin --compress=false
cuda_flags_size      := -Xfatbin -compress-all
cuda_flags_lz4       := --compress-mode=speed
cuda_flags_legacy    := -D__NV_LEGACY_LAUNCH -Xcompiler -D__NV_LEGACY_LAUNCH
cuda_flags_debug     := -G
cuda_flags_perthread := --default-stream per-thread

build/cuda/%: tests/cuda/%.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $<

$(addprefix build/cuda/managed,$() _access _launches _neighbours _random): tests/cuda/managed.h

$(addprefix build/cuda/ipc,$() _events _handles _killed _peers _pools): tests/cuda/together.h

$(addprefix build/cuda/,arrays dynamic graph_memory graph_threads ipc ipc_events ipc_handles ipc_pools managed \
    managed_access): tests/cuda/software.h

build/cuda/graph_random: tests/cuda/graph_work.h

# CUB, libcu++ and cooperative groups are written in C++17.
CUDA_TEST_NEWER := clusters litmus lookback occupancy tensors tiles
$(CUDA_TEST_NEWER:%=build/cuda/%) $(CUDA_TEST_NEWER:%=$(BUILD)/tests/driver/static-%) \
    $(CUDA_TEST_NEWER:%=$(BUILD)/tests/driver/old/%.o) build/conformance/launches \
    build/conformance/11/launches build/conformance/12/launches: CUDA_STD := -std=c++17

# Tiles of several warps need what code for compute capability 8.0 and later may use.
build/cuda/tiles: CUDA_TEST_FLAGS = $(CUDA_STD) -cudart shared -arch=sm_80 -O1 -Wno-deprecated-gpu-targets

# The compiler for compute capability 10.0 (CUDA 12.8 and later) puts blocks in front of those that lead to them.
build/cuda/in_step: CUDA_TEST_FLAGS += $(if $(filter memory-lz4,$(CUDA_TEST_VARIANTS)),-gencode \
    arch=compute_75$(comma)code=compute_75 -gencode arch=compute_100$(comma)code=compute_100)

define cuda_variant_rule
build/cuda/$(1): tests/cuda/$(firstword $(subst -, ,$(1))).cu $(CUDA_CHECK)
	@mkdir -p $$(@D)
	$$(NVCC) $$(CUDA_TEST_FLAGS) $$(cuda_flags_$(lastword $(subst -, ,$(1)))) -o $$@ $$<
endef
$(foreach variant,$(CUDA_TEST_VARIANTS),$(eval $(call cuda_variant_rule,$(variant))))

build/cuda/linked: tests/cuda/linked/main.cu tests/cuda/linked/other.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -rdc=true -o $@ tests/cuda/linked/main.cu tests/cuda/linked/other.cu

build/cuda/differ: $(addprefix tests/cuda/differ/,main.cu model.h wrong.h) $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $<

# Kernels that launch kernels are linked with the device runtime.
build/cuda/dynamic: CUDA_TEST_FLAGS += -rdc=true
build/cuda/dynamic: tests/cuda/dynamic.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $< -lcudadevrt

# cudaGraphSetConditional and cudaGraphLaunch are functions of the device, which are found when the code is linked.
build/cuda/conditions build/cuda/condition_random build/cuda/device_graphs: CUDA_TEST_FLAGS += -rdc=true

# Clusters and tensor copies need the architecture that has them.
build/cuda/clusters build/cuda/overtaken build/cuda/tensors: build/cuda/%: tests/cuda/%.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -gencode arch=compute_75,code=compute_75 -gencode arch=compute_90,code=compute_90 -o $@ $<

# Two files of the program, a library that it is linked with, and one that it loads.
build/cuda/libraries: $(addprefix tests/cuda/libraries/,main.cu part.cu) $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -DNAME=seven -DVALUE=7 -shared -Xcompiler -fPIC -o $@-seven.so tests/cuda/libraries/part.cu
	$(NVCC) $(CUDA_TEST_FLAGS) -DNAME=five -DVALUE=5 -shared -Xcompiler -fPIC -Xlinker -soname=$(@F)-five.so \
	    -o $@-five.so tests/cuda/libraries/part.cu
	$(NVCC) $(CUDA_TEST_FLAGS) -DNAME=two -DVALUE=2 -c -o $@-two.o tests/cuda/libraries/part.cu
	$(NVCC) $(CUDA_TEST_FLAGS) -DNAME=three -DVALUE=3 -c -o $@-three.o tests/cuda/libraries/part.cu
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ tests/cuda/libraries/main.cu $@-two.o $@-three.o $@-five.so \
	    -Xlinker -rpath='$$ORIGIN' -ldl

# Several programs of one tenant. ThreadSanitizer: as below.
build/cuda/quota: tests/cuda/quota/main.cu tests/cuda/quota/big.cu
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $^
# One whose share changes: tests/control/elastic.py. One that moves: moves.py. One with several GPUs: gangs.py.
TESTS_CUDA_TOLD := $(addprefix build/cuda/,elastic moved gang)
$(TESTS_CUDA_TOLD): build/cuda/%: tests/cuda/%/main.cu
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $<
$(BUILD)/tests/quota-%: tests/cuda/quota.py tests/cuda/e2e.py build/cuda/quota | $(PROGRAMS)
	$(call script,tests/cuda/quota.py --bin $(BIN) --transport $* build/cuda/quota)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/quota-shm $(BUILD)/tests/quota-tcp)
# What one program has left and the next one looks for. ThreadSanitizer: as below.
$(BUILD)/tests/fresh-%: tests/cuda/fresh.py tests/cuda/e2e.py build/cuda/fresh | $(PROGRAMS)
	$(call script,tests/cuda/fresh.py --bin $(BIN) --transport $* build/cuda/fresh)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/fresh-shm)
build/cuda/moved_ring: tests/cuda/moved/ring.cu
build/cuda/moved_stripes: tests/cuda/moved/stripes.cu tests/lib/dice.h
build/cuda/moved_ring build/cuda/moved_stripes:
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $<
build/cuda/moved_graphs: tests/cuda/moved/graphs.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -rdc=true -o $@ $< -lcudadevrt

build/cuda/vector_add-noptx: tests/cuda/vector_add.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_STD) -cudart shared -O1 -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=sm_75 -o $@ $<

$(BUILD)/tests/messages: tests/cuda/messages.py build/cuda/vector_add-noptx build/cuda/forever $(CUDA_TEST_PROGRAMS) \
    | $(PROGRAMS)
	$(call script,tests/cuda/messages.py --bin $(BIN))
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/messages)

.PHONY: cuda-tests
cuda-tests: $(CUDA_TEST_PROGRAMS)

# Not under ThreadSanitizer: cancelled has copies of two streams that race on purpose, locked keeps all memory resident.
# Nor under AddressSanitizer: it makes nothing of mlockall and ends a process that has a limit on addresses (locked),
# and a child that was forked while another thread allocated never gets the lock of its allocator (forks).
CUDA_TEST_NOT_thread  := build/cuda/cancelled build/cuda/locked
CUDA_TEST_NOT_address := $(addprefix build/cuda/,forks locked)
CUDA_TEST_E2E := $(filter-out $(CUDA_TEST_NOT_$(firstword $(subst -, ,$(FLAVOUR)))),$(CUDA_TEST_PROGRAMS))
# One test is one server and all programs: $(BUILD)/tests/e2e-<transport>-<way>-<chaos seed, 0: none>. With `-short` it
# leaves out `many`, which chaos and a busy machine slow down very much. With `-some` it takes the programs that depend
# on the transport most; make check-long takes all.
CUDA_TEST_SOME := cancelled errors exhaustion forks freed graphs host_handles ipc ipc_events ipc_handles \
                  ipc_killed ipc_pools joined lanes locked \
                  managed_neighbours memory pinned pinned_kernels pinned_random printing sticky streams stress threads \
                  vector_add waiting wide
CUDA_TEST_SOME := $(filter $(addprefix build/cuda/,$(CUDA_TEST_SOME)),$(CUDA_TEST_E2E))
cuda_test_not_short = $(if $(filter %-short,$(1)),build/cuda/many)
cuda_test_picked = $(if $(filter %-some,$(1)),$(CUDA_TEST_SOME),$(filter-out $(cuda_test_not_short),$(CUDA_TEST_E2E)))
# ThreadSanitizer leaves too little of the address space for two processes to agree on a window: there in process only.
CUDA_TEST_RUNS      := e2e-local-run-0-short
ifeq (,$(findstring thread,$(FLAVOUR)))
CUDA_TEST_RUNS      += e2e-shm-run-0 e2e-unix-run-0-some e2e-tcp-preload-7-some
endif
CUDA_TEST_LONG_RUNS := $(addprefix e2e-,local-run-0 unix-run-0 tls-run-3 shm-preload-1 unix-preload-2 \
                       tcp-run-3 tls-preload-4 shm-preload-5)
$(BUILD)/tests/e2e-%: tests/cuda/e2e.py tests/cuda/room.mk $(CUDA_TEST_PROGRAMS) | $(PROGRAMS)
	@mkdir -p $(@D)
	@set -- $(subst -, ,$*); printf '#!/bin/sh\nexec tests/cuda/e2e.py --bin %s --transport %s --way %s %s "$$@" %s\n' \
	    $(BIN) $$1 $$2 "$$([ $$3 = 0 ] || echo --chaos $$3)" \
	    '$(call cuda_test_picked,$*)' > $@
	@chmod +x $@
TESTS      += $(addsuffix @400,$(addprefix $(BUILD)/tests/,$(CUDA_TEST_RUNS)))
LONG_TESTS += $(addprefix $(BUILD)/tests/,$(CUDA_TEST_LONG_RUNS))

# CUB's look-back, many times each; without and with chaos.
LOOKBACK_LONG := tests/cuda/e2e.py --bin $(BIN) --limit 800 --arguments '60 300007'
LONG_TESTS += $(if $(findstring thread,$(FLAVOUR)),,"$(LOOKBACK_LONG) --transport shm build/cuda/lookback" \
    "$(LOOKBACK_LONG) --transport tcp --chaos 5 build/cuda/lookback")

# Programs over all transports at once, some of them killed; longer: more seeds, and more steps of stress with chaos.
$(BUILD)/tests/together: tests/cuda/together.py tests/cuda/e2e.py build/cuda/stress | $(PROGRAMS)
	$(call script,tests/cuda/together.py --bin $(BIN))
CUDA_TEST_STRESS := tests/cuda/e2e.py --bin $(BIN) --limit 300 --arguments
ifeq (,$(findstring thread,$(FLAVOUR)))
TESTS      += $(BUILD)/tests/together@300
LONG_TESTS += "$(BUILD)/tests/together --seed 2 --rounds 20 --steps 1000"
LONG_TESTS += $(foreach where,shm unix tcp,$(foreach seed,1 2 3,\
    "$(CUDA_TEST_STRESS) '$(seed) 3000' --chaos $(seed) --transport $(where) build/cuda/stress"))
endif

# Over TLS, with certificates.
$(BUILD)/tests/cuda_tls: tests/cuda/tls.py tests/cuda/e2e.py build/cuda/vector_add build/cuda/forever \
    build/cuda/memory | $(PROGRAMS)
	$(call script,tests/cuda/tls.py --bin $(BIN))
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/cuda_tls@sleeps)

# Random work, compared call by call between a run in process and every transport.
$(BUILD)/tests/differ: tests/cuda/differ.py tests/cuda/e2e.py build/cuda/differ | $(PROGRAMS)
	$(call script,tests/cuda/differ.py --bin $(BIN))
TESTS      += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/differ@300)
LONG_TESTS += $(if $(findstring thread,$(FLAVOUR)),,"$(BUILD)/tests/differ --seeds 2-11 --steps 400" \
                "$(BUILD)/tests/differ --seeds 22-26 --steps 400 --chaos 3" \
                "$(BUILD)/tests/differ --seeds 32-41 --steps 400 --devices 1")

# What needs two devices.
CUDA_TEST_DEVICES := $(addprefix build/cuda/,device_graphs devices freed graph_memory_random graph_random \
                       host_handles ipc_peers peers)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,\
    "env FLYT_SOFTGPU_DEVICES=2 tests/cuda/e2e.py --bin $(BIN) --transport tcp $(CUDA_TEST_DEVICES)" \
    "env FLYT_SOFTGPU_DEVICES=2 tests/cuda/e2e.py --bin $(BIN) --transport shm --chaos 1 $(CUDA_TEST_DEVICES)" \
                "env FLYT_SOFTGPU_DEVICES=4 tests/cuda/e2e.py --bin $(BIN) --transport local build/cuda/peers")
$(BUILD)/tests/differ: $(CUDA_TEST_DEVICES)

# How much moves for a launch on managed memory.
$(BUILD)/tests/managed_calls: tests/cuda/managed_calls.py tests/cuda/e2e.py build/cuda/managed_launches | $(PROGRAMS)
	$(call script,tests/cuda/managed_calls.py --bin $(BIN))
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/managed_calls)
LONG_TESTS += $(foreach where,local shm tcp,\
    "tests/cuda/e2e.py --bin $(BIN) --arguments '2 3000' --transport $(where) build/cuda/managed_random")

# Pinned memory in kernels over a network, on a GPU whose kernels cannot wait for it, as NVIDIA's.
CUDA_TEST_PINNED := tests/cuda/e2e.py --bin $(BIN) --transport tcp
ifeq (,$(findstring thread,$(FLAVOUR)))
TESTS      += "env FLYT_PERF=no_pull $(CUDA_TEST_PINNED) build/cuda/pinned_kernels build/cuda/pinned_random" \
              "env FLYT_SOFTGPU_MEMCHECK=1 $(CUDA_TEST_PINNED) build/cuda/pinned_random"
LONG_TESTS += $(foreach seed,1 2 3,\
    "$(CUDA_TEST_PINNED) --arguments '$(seed) 5000' --chaos $(seed) build/cuda/pinned_random")
endif

# Programs in containers.
$(BUILD)/tests/containers: tests/cuda/containers.py tests/cuda/e2e.py build/cuda/pinned | $(PROGRAMS)
	$(call script,tests/cuda/containers.py --bin $(BIN))
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/containers@200)

# Large copies over connections of their own.
$(BUILD)/tests/cuda_lanes: tests/cuda/lanes.py tests/cuda/e2e.py build/cuda/lanes $(BUILD)/tests/bench_link \
    | $(PROGRAMS)
	$(call script,tests/cuda/lanes.py --bin $(BIN) --link $(BUILD)/tests/bench_link)
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/cuda_lanes@sleeps,300)
LONG_TESTS += $(if $(findstring thread,$(FLAVOUR)),,"$(BUILD)/tests/cuda_lanes --transport tls")

# One program, GPUs of several servers.
build/cuda/several: tests/cuda/several/main.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $< -ldl
build/cuda/across: tests/cuda/several/across.cu $(CUDA_CHECK)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_TEST_FLAGS) -o $@ $<
$(BUILD)/tests/cuda_several: tests/cuda/several.py tests/cuda/e2e.py build/cuda/several build/cuda/across | $(PROGRAMS)
	$(call script,tests/cuda/several.py --bin $(BIN))
# ThreadSanitizer leaves a process hardly a range of 1 TiB, so two processes find none in common.
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/cuda_several@sleeps,200)
$(BUILD)/tests/cuda_stopped: tests/cuda/stopped.py tests/cuda/several.py build/cuda/across | $(PROGRAMS)
	$(call script,tests/cuda/stopped.py --bin $(BIN))
LONG_TESTS += $(if $(findstring thread,$(FLAVOUR)),,"$(BUILD)/tests/cuda_stopped@sleeps,200" \
                "$(BUILD)/tests/cuda_several --seeds 40 --steps 400" \
                "$(BUILD)/tests/cuda_several --seeds 20 --steps 200 --chaos 7")

# Through the memory of an ivshmem device.
$(BUILD)/tests/cuda_bar: tests/cuda/bar.py tests/cuda/e2e.py build/cuda/vector_add build/cuda/streams \
    build/cuda/pinned build/cuda/memory build/cuda/cancelled build/cuda/forever | $(PROGRAMS)
	$(call script,tests/cuda/bar.py --bin $(BIN))
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/cuda_bar@200)

# Programs and servers in unusual states.
$(BUILD)/tests/cuda_guest: tests/cuda/guest.py tests/cuda/e2e.py build/cuda/vector_add | $(PROGRAMS)
	$(call script,tests/cuda/guest.py --bin $(BIN))
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/cuda_guest@200)
