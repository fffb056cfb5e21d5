# cpu/client/run: flyt-run, which starts programs with Flyt's libraries.
RUN_OBJECTS := $(call objects,cpu/client/run/flyt-run.c cpu/client/run/program.c)
PROGRAMS    += $(BIN)/flyt-run

$(BIN)/flyt-run: $(RUN_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^
