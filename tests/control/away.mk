# Every changing command of flytctl while the resource DB does not answer. Sanitizers want to be loaded first.
$(BUILD)/tests/control_frozen_disk.so: $(call objects,tests/control/frozen_disk.c)
	@mkdir -p $(@D)
	$(CC) -shared $(ALL_LDFLAGS) -o $@ $^ -ldl
TESTS += $(if $(SANITIZE),,"tests/control/db_away.py $(BIN) $(BUILD)/tests/control_frozen_disk.so@sleeps")
