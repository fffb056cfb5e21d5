# cpu/client/run: flyt-run, which starts programs with Flyt's libraries.
RUN_OBJECTS := $(call objects,cpu/client/run/flyt-run.c cpu/client/run/loader.c cpu/client/run/program.c)
PROGRAMS    += $(BIN)/flyt-run

$(BIN)/flyt-run: $(RUN_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(if $(SANITIZE),,-static-pie) $(ALL_LDFLAGS) -o $@ $^

# Preloaded by flyt-run: see interpose.h, and interpose.c for the options.
RUN_NVRTC := $(BIN)/libflyt-nvrtc.so
RUN_NVRTC_SOURCES := $(addprefix cpu/client/run/,interpose.c nvrtc.c nvvm.c jitlink.c files.c)
$(RUN_NVRTC): $(RUN_NVRTC_SOURCES) cpu/client/run/interpose.h cpu/common/softgpu.h | $(AGED)
	@mkdir -p $(@D)
	$(CC) -shared -fPIC -I. -O2 -foptimize-sibling-calls -std=gnu11 -Wall -Wextra -fvisibility=hidden \
	    -o $@ $(RUN_NVRTC_SOURCES) -Wl,-soname,libflyt-nvrtc.so -Wl,-z,relro,-z,now \
	    $(OWN_WEAK) $(AGED_LDFLAGS) -ldl
PROGRAMS += $(RUN_NVRTC)

# First in the PATH of programs that compile kernels.
RUN_COMPILERS := $(addprefix $(BIN)/compilers/,compilers.sh nvcc ptxas ptxas-blackwell)
$(filter-out %-blackwell,$(RUN_COMPILERS)): $(BIN)/compilers/%: cpu/client/run/%
	@mkdir -p $(@D)
	cp $< $@
# Triton calls it by this name for compute capabilities from 9.0 on.
$(BIN)/compilers/ptxas-blackwell: | $(BIN)/compilers/ptxas
	ln -sfn ptxas $@
PROGRAMS += $(RUN_COMPILERS)
