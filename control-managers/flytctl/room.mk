# control-managers/flytctl: the administrator's command line.
FLYTCTL_NAMES   := main.c commands.c complete.c options.c secret.c session.c answers.c output.c table.c schema.c \
                   cmd_vm.c cmd_vm_file.c cmd_cluster.c cmd_watch.c cmd_change.c cmd_move.c cmd_config.c check.c \
                   cmd_ca.c cmd_ca_revoke.c cmd_health.c cmd_node_file.c cmd_checkpoint.c cmd_compact.c since.c \
                   yaml.c color.c forms.c select.c list.c screen.c kinds.c events.c describe.c top.c move_line.c \
                   cmd_usage.c usage_rows.c cmd_logs.c cmd_comm.c comm_rows.c
# The daemons' tables of keys, for `config check`.
FLYTCTL_SCHEMAS := $(patsubst %,control-managers/%/schema.c,cluster-manager node-manager client-manager monitor)
FLYTCTL_OBJECTS := $(call objects,$(addprefix control-managers/flytctl/,$(FLYTCTL_NAMES)) $(FLYTCTL_SCHEMAS))

# What stands for a call of a communicator, for `comm`.
FLYTCTL_COMM    := $(call objects,cpu/comm/note.c cpu/comm/plan/choose.c cpu/comm/reduce/reduce.c)

$(FLYTCTL_OBJECTS): | $(CONTROL_COMMON_HEADERS)

# Rooms are read in the order of their names: cpu/checkpoint comes later.
.SECONDEXPANSION:
$(BIN)/flytctl: $(FLYTCTL_OBJECTS) $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS)) $$(CPU_CHECKPOINT_OBJECTS) \
    $(FLYTCTL_COMM) $(call objects,cpu/code/hash.c) $$(CONTROL_ROWS_OBJECTS) $$(CPU_CHECKPOINT_CIPHER)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ $(CONTROL_COMMON_LIBS) -ljansson -lyaml -lm $(CPU_CHECKPOINT_LIBS) -o $@
PROGRAMS += $(BIN)/flytctl
