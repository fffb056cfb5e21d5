# cpu/client/nvml: libnvidia-ml.so.1 for programs, flyt-nvml, which it starts to ask the GPU server, and flyt-smi.
NVML_LIBRARY := $(BIN)/cudart/libnvidia-ml.so.1
NVML_HELPER  := $(BIN)/cudart/flyt-nvml
NVML_STUBS   := $(BUILD)/generated/nvml/stubs.c
NVML_OBJECTS := $(call objects,$(addprefix cpu/client/nvml/,device.c source.c system.c used.c) cpu/common/clock.c) \
                $(NVML_STUBS:.c=.o)
PROGRAMS     += $(NVML_LIBRARY) $(BIN)/cudart/libnvidia-ml.so $(NVML_HELPER)

$(NVML_STUBS): cpu/client/nvml/names.txt cpu/client/nvml/stubs.awk
	@mkdir -p $(@D)
	awk -f cpu/client/nvml/stubs.awk $< > $@ || { rm -f $@; exit 1; }
$(NVML_STUBS:.c=.o): $(NVML_STUBS)
	$(CC) $(ALL_CFLAGS) -Wno-missing-prototypes -c $< -o $@

# A clock for programs that have other things of that name: nothing but NVML's functions is exported.
$(NVML_LIBRARY): $(NVML_OBJECTS) | $(AGED)
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $^ -Wl,-soname,libnvidia-ml.so.1 $(RUNTIME_LDFLAGS) $(ALL_LDFLAGS) -ldl
# NVIDIA's installer makes the name without a number too.
$(BIN)/cudart/libnvidia-ml.so: | $(NVML_LIBRARY)
	ln -sfn $(notdir $(NVML_LIBRARY)) $@
$(NVML_HELPER): $(call objects,cpu/client/nvml/helper.c) | $(BIN)/libflyt-client.so $(AGED)
	@mkdir -p $(@D)
	$(CC) $(AGED_LDFLAGS) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN) -lflyt-client -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..'

# Flyt's own library, whatever else the machine has.
NVML_SMI_OBJECTS := $(call objects,$(wildcard cpu/client/nvml/smi*.c))
# Rooms are read in the order of their names: cpu/rpc comes later.
.SECONDEXPANSION:
$(NVML_SMI_OBJECTS): | $$(CPU_RPC_HEADERS)
$(BIN)/flyt-smi: $(NVML_SMI_OBJECTS) $$(CPU_RPC_OBJECTS) $$(CPU_RPC_MANAGER_ASKS) $$(CPU_COMMON_OBJECTS) \
    | $(NVML_LIBRARY) $(AGED)
	@mkdir -p $(@D)
	$(CC) $(ALONE) $(ALL_LDFLAGS) -o $@ $^ -L$(BIN)/cudart -l:libnvidia-ml.so.1 \
	    -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/cudart' $(call inside,-ltirpc)
# What flyt-run puts first in the PATH of programs.
$(BIN)/tools/nvidia-smi: | $(BIN)/flyt-smi
	@mkdir -p $(@D)
	ln -sfn ../flyt-smi $@
PROGRAMS += $(BIN)/flyt-smi $(BIN)/tools/nvidia-smi
