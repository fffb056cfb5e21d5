# tests/control: the control plane. Each subject has a .mk file of its own, so that several hands do not meet in this one.
include $(filter-out tests/control/room.mk,$(sort $(wildcard tests/control/*.mk)))
