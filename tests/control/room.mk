# tests/control: the control plane. Each subject has a .mk file of its own.
include $(filter-out tests/control/room.mk,$(sort $(wildcard tests/control/*.mk)))
