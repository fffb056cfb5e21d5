# tests/fuzz: fuzz targets (`make fuzz`; for 3 s each in `make check`). They are built by clang whatever CC is: objects
# of other flavours are of no use. Where clang has no libFuzzer, a note takes the program's place, and the test is
# skipped.
FUZZ_TARGETS := exec rpc lanes control fatbin ptx checkpoint chain comm_store comm_link comm_sided link_boxes web
FUZZ_CC    ?= clang
FUZZ_FLAGS := -g1 -O1 -std=c11 -D_GNU_SOURCE -pthread -fsanitize=fuzzer,address,undefined \
              -fprofile-instr-generate -fcoverage-mapping \
              -fno-sanitize-recover=undefined -fno-sanitize=function -I. -I$(BUILD)/generated \
              -I$(CPU_RPC_GENERATED) -isystem /usr/include/tirpc -w
FUZZ_HAVE   = echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && !n; }' | \
              $(FUZZ_CC) -fsanitize=fuzzer,address,undefined -x c - -o $@ 2>/dev/null

# ---- all sources at once ----
FUZZ_LINK   = @mkdir -p $(@D); if $(FUZZ_HAVE); then $(FUZZ_CC) $(FUZZ_FLAGS) -o $@ $(filter %.c,$^) $(1); \
              else echo 'no libFuzzer' > $@; fi

FUZZ_RPC_SOURCES := $(filter-out cpu/rpc/manager.c $(addprefix cpu/rpc/tls/,channel_tls.c tls_context.c \
                                                               tls_handshake.c tls_identity.c), \
                                 $(wildcard cpu/rpc/*.c cpu/rpc/*/*.c)) \
                                 $(addprefix cpu/common/,clock.c env.c fd.c wire.c)
$(BUILD)/fuzz/rpc: tests/fuzz/rpc.c tests/lib/stubs.c tests/lib/stubs.h $(FUZZ_RPC_SOURCES) \
                   $(CPU_RPC_GENERATED)/cpu_rpc_prot_xdr.c $(wildcard cpu/rpc/*.h cpu/rpc/*/*.h) $(CPU_RPC_HEADERS)
	$(call FUZZ_LINK,$(CPU_RPC_LIBS))

# Sockets are the only transport of lanes: the figures of coverage are of what a lane needs.
FUZZ_LANES_SOURCES := cpu/server/lanes/lanes_in.c cpu/rpc/call/lane.c \
                      $(addprefix cpu/rpc/transport/,block.c channel.c channel_socket.c liveness.c) \
                      $(addprefix cpu/common/,clock.c env.c fd.c)
$(BUILD)/fuzz/lanes: tests/fuzz/lanes.c $(FUZZ_LANES_SOURCES) $(CPU_RPC_HEADERS) \
                     $(wildcard $(addsuffix .h,cpu/server/* cpu/server/*/* cpu/rpc/* cpu/rpc/*/*)) | $(API_INCLUDED)
	$(call FUZZ_LINK,-isystem $(CUDA_INCLUDE))

$(BUILD)/fuzz/control: tests/control/common_fuzz.c cpu/common/secret.c cpu/common/ticket.c cpu/common/wire.c \
                       $(addprefix control-managers/common/,config.c config_values.c loop_address.c protocol.c) \
                       control-managers/cluster-manager/schema.c $(wildcard control-managers/common/*.h) \
                       | $(CONTROL_COMMON_HEADERS) $(CONTROL_COMMON_GENERATED)/control_prot_xdr.c
	$(call FUZZ_LINK,-I$(CONTROL_COMMON_GENERATED) -luv -lconfig -lcrypto -ltirpc)

$(BUILD)/fuzz/web: tests/fuzz/web.c $(addprefix control-managers/monitor/,access.c texts.c access.h texts.h) \
                   control-managers/common/protocol.c | $(CONTROL_COMMON_HEADERS) \
                   $(CONTROL_COMMON_GENERATED)/control_prot_xdr.c
	$(call FUZZ_LINK,-I$(CONTROL_COMMON_GENERATED) $(CONTROL_COMMON_GENERATED)/control_prot_xdr.c -lcrypto -ltirpc)

$(BUILD)/fuzz/comm_store: tests/fuzz/comm_store.c $(wildcard cpu/comm/*/*.h) cpu/comm/greet/greet.c \
                          $(addprefix cpu/comm/store/,peer.c values.c) cpu/common/secret.c cpu/common/clock.c \
                          | $(CPU_RPC_HEADERS)
	$(call FUZZ_LINK,-lcrypto)

FUZZ_COMM_SOURCES := $(wildcard cpu/comm/link/*.c) cpu/comm/ucx/without.c cpu/comm/greet/greet.c \
                     $(addprefix cpu/rpc/transport/,block.c channel.c channel_socket.c liveness.c) \
                     $(wildcard cpu/rpc/tls/*.c) cpu/rpc/shm/ring.c \
                     $(addprefix cpu/common/,certificate.c clock.c env.c fd.c fd_message.c secret.c tree.c)
$(BUILD)/fuzz/comm_link: tests/fuzz/comm_link.c $(FUZZ_COMM_SOURCES) $(wildcard cpu/comm/*/*.h) | $(CPU_RPC_HEADERS)
	$(call FUZZ_LINK,-lssl -lcrypto -ltirpc)

$(BUILD)/fuzz/comm_sided: tests/fuzz/comm_sided.c $(addprefix cpu/comm/,sides.c window.c sided_head.c) \
                          cpu/common/clock.c $(wildcard cpu/comm/*.h cpu/comm/*/*.h) | $(CPU_RPC_HEADERS)
	$(call FUZZ_LINK)

$(BUILD)/fuzz/link_boxes: tests/fuzz/link_boxes.c $(addprefix cpu/server/,links/transfer.c copy/copy_plan.c) \
                          $(CPU_RPC_HEADERS) $(wildcard $(addsuffix .h,cpu/server/* cpu/server/*/*) cpu/comm/link/*.h) \
                          | $(API_INCLUDED)
	$(call FUZZ_LINK,-isystem $(CUDA_INCLUDE))

$(BUILD)/fuzz/fatbin: tests/fuzz/fatbin.c $(addprefix cpu/code/,fatbin.c fatbin.h kernels.c kernels.h)
	$(call FUZZ_LINK,$(CPU_CODE_LIBS))
$(BUILD)/fuzz/chain: tests/fuzz/chain.c $(wildcard cpu/checkpoint/*.[ch]) cpu/code/hash.c
	$(call FUZZ_LINK,$(CPU_CHECKPOINT_LIBS) -lcrypto)
$(BUILD)/fuzz/seeds/chain: $(BUILD)/tests/checkpoint_chain
	@mkdir -p $@
	$< --seeds $@
$(BUILD)/fuzz/checkpoint: tests/fuzz/checkpoint.c $(wildcard cpu/checkpoint/*.[ch]) cpu/code/hash.c
	$(call FUZZ_LINK,$(CPU_CHECKPOINT_LIBS) -lcrypto)
$(BUILD)/fuzz/seeds/checkpoint: $(addprefix $(BUILD)/tests/checkpoint_,file sealed)
	@mkdir -p $@
	for program in $^; do $$program --seeds $@ || exit 1; done
$(BUILD)/fuzz/seeds/fatbin: $(BUILD)/tests/code_fatbin | $(TESTS_CODE_KERNELS)
	@mkdir -p $@
	$< --seeds $@
	cp $(TESTS_CODE_KERNELS) $@

# ---- objects of their own: those of the software GPU take minutes ----
FUZZ_OBJECT_FLAGS = $(subst -fsanitize=fuzzer,-fsanitize=fuzzer-no-link,$(FUZZ_FLAGS))
fuzz_objects = $(patsubst $(BUILD)/%.o,$(BUILD)/fuzz/objects/%.o,$(1))
FUZZ_PTX_OBJECTS  := $(call fuzz_objects,$(SOFTGPU_PTX_OBJECTS) \
                       $(call objects,tests/fuzz/ptx.c tests/ptx/same.c tests/ptx/validate.c))
FUZZ_EXEC_OBJECTS := $(call fuzz_objects,$(SOFTGPU_EXEC_OBJECTS) $(SOFTGPU_ALU_OBJECTS) $(SOFTGPU_PTX_OBJECTS) \
                       $(call objects,tests/fuzz/exec.c $(addprefix cpu/common/,env.c log.c tree.c)))
ifneq ($(shell command -v $(FUZZ_CC)),)
$(BUILD)/fuzz/objects/%.o: %.c
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FUZZ_OBJECT_FLAGS) -MMD -MP -c $< -o $@
define fuzz_clone_rule
$$(BUILD)/fuzz/objects/%.$(1).o: %.c
	@mkdir -p $$(@D)
	$$(FUZZ_CC) $$(FUZZ_OBJECT_FLAGS) -fno-trapping-math -fno-math-errno -DSG_CLONE_LEVEL=$(1) \
	    $$(SOFTGPU_CLONE_$(1)) -MMD -MP -c $$< -o $$@
endef
$(foreach level,$(SOFTGPU_CLONE_LEVELS),$(eval $(call fuzz_clone_rule,$(level))))
$(BUILD)/fuzz/ptx: $(FUZZ_PTX_OBJECTS)
$(BUILD)/fuzz/exec: $(FUZZ_EXEC_OBJECTS)
endif
$(BUILD)/fuzz/ptx $(BUILD)/fuzz/exec:
	@mkdir -p $(@D)
	if $(FUZZ_HAVE); then $(FUZZ_CC) $(FUZZ_FLAGS) $^ -lm -o $@; else echo 'no libFuzzer' > $@; fi

# ---- in the tests ----
# $(call fuzz_test,seconds,target,seeds)
fuzz_test = "tests/fuzz/run.sh $(BUILD)/fuzz/$(2) $(1) $(BUILD)/fuzz/corpus/$(2) $(3)"
fuzz_tests = $(call fuzz_test,$(1),rpc,tests/fuzz/seeds/rpc.tar.gz) \
             $(call fuzz_test,$(1),lanes,tests/fuzz/seeds/lanes.tar.gz) \
             $(call fuzz_test,$(1),control,tests/fuzz/seeds/control.tar.gz) \
             $(call fuzz_test,$(1),fatbin,$(BUILD)/fuzz/seeds/fatbin) \
             $(call fuzz_test,$(1),ptx,tests/fuzz/seeds/ptx) \
             $(call fuzz_test,$(1),checkpoint,$(BUILD)/fuzz/seeds/checkpoint) \
             $(call fuzz_test,$(1),chain,$(BUILD)/fuzz/seeds/chain) \
             $(call fuzz_test,$(1),comm_store,tests/fuzz/seeds/comm_store.tar.gz) \
             $(call fuzz_test,$(1),comm_link,tests/fuzz/seeds/comm_link.tar.gz) \
             $(call fuzz_test,$(1),comm_sided,) \
             $(call fuzz_test,$(1),link_boxes,tests/fuzz/seeds/link_boxes.tar.gz) \
             $(call fuzz_test,$(1),web,tests/fuzz/seeds/web)
# (In other flavours they would be the same programs once more.) `make fuzz` is for longer.
ifeq ($(FLAVOUR),plain)
TESTS      += $(call fuzz_tests,3)
LONG_TESTS += $(call fuzz_tests,60) $(call fuzz_test,60,exec,tests/fuzz/seeds/exec.tar.gz)
endif
