# control-managers: the daemons and flytctl. Each folder has a room.mk of its own.
include control-managers/common/room.mk
include $(filter-out control-managers/common/room.mk,$(sort $(wildcard control-managers/*/room.mk)))
