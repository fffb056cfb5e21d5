# control-managers/monitor: flyt-monitor, a cluster over HTTP. It is built where libmicrohttpd is.
MONITOR_NAMES   := access.c connections.c history.c main.c metrics.c mirror.c read.c schema.c streams.c \
                   texts.c web.c web_tls.c
MONITOR_OBJECTS := $(call objects,$(addprefix control-managers/monitor/,$(MONITOR_NAMES)))
MONITOR_PAGE    := $(addprefix control-managers/monitor/,page.html page.css page.js icon.svg)

$(MONITOR_OBJECTS): | $(CONTROL_COMMON_HEADERS)
$(call objects,control-managers/monitor/web.c): $(MONITOR_PAGE)

.SECONDEXPANSION:
$(BIN)/flyt-monitor: $(MONITOR_OBJECTS) $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS)) $$(CONTROL_ROWS_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ $(CONTROL_COMMON_LIBS) -ljansson -lmicrohttpd -lgnutls -lpthread -o $@
PROGRAMS += $(BIN)/flyt-monitor
