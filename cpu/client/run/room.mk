# cpu/client/run: flyt-run, which starts programs with Flyt's libraries.
RUN_OBJECTS := $(call objects,cpu/client/run/flyt-run.c cpu/client/run/program.c)
PROGRAMS    += $(BIN)/flyt-run

$(BIN)/flyt-run: $(RUN_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^

# Preloaded by flyt-run: see nvrtc.c, also for the options.
RUN_NVRTC := $(BIN)/libflyt-nvrtc.so
$(RUN_NVRTC): cpu/client/run/nvrtc.c
	@mkdir -p $(@D)
	$(CC) -shared -fPIC -O2 -foptimize-sibling-calls -std=gnu11 -Wall -Wextra -fvisibility=hidden -o $@ $< \
	    -Wl,-soname,libflyt-nvrtc.so -ldl
PROGRAMS += $(RUN_NVRTC)
