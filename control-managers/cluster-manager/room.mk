# control-managers/cluster-manager
CLUSTER_MANAGER_NAMES   := admin.c admin_counters.c admin_follow.c admin_log.c admin_move.c admin_node.c \
                          admin_rows.c admin_share.c admin_target.c admin_vm.c balance.c changes.c counts.c \
                          entitlement.c \
                          events.c \
                          follow.c gpu_links.c health.c idle.c incidents.c keys.c load.c main.c move_books.c \
                          move_check.c move_group.c move_list.c move_pace.c \
                          move_target.c moves.c moving.c nodes.c outbox.c own_view.c place.c place_gang.c place_set.c \
                          policy.c programs.c push.c queue.c recovery.c refusal.c renew.c resize.c retry.c schema.c \
                          seek.c servers.c session.c state.c store.c unreached.c usage.c usage_rows.c usage_served.c \
                          usage_share.c value_calls.c values.c waiting.c
CLUSTER_MANAGER_OBJECTS := $(call objects,$(addprefix control-managers/cluster-manager/,$(CLUSTER_MANAGER_NAMES)))
# What flytctl links for `config check`.
CLUSTER_MANAGER_SCHEMA_OBJECTS := $(call objects,control-managers/cluster-manager/schema.c)

$(CLUSTER_MANAGER_OBJECTS): | $(CONTROL_COMMON_HEADERS)
$(BIN)/flyt-cluster-manager: $(CLUSTER_MANAGER_OBJECTS) $(CONTROL_COMMON_OBJECTS) $(CONTROL_DB_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ $(CONTROL_COMMON_LIBS) $(CONTROL_DB_LIBS) -o $@

PROGRAMS += $(BIN)/flyt-cluster-manager
