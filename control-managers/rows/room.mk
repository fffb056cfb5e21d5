# control-managers/rows: the cluster manager's rows as JSON, for flytctl and flyt-monitor.
CONTROL_ROWS_OBJECTS := $(call objects,$(addprefix control-managers/rows/,rows.c pages.c))

$(CONTROL_ROWS_OBJECTS): | $(CONTROL_COMMON_HEADERS)
