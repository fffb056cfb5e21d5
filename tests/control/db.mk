# The resource DB: one suite over each implementation.
TESTS_CONTROL_DB := $(BUILD)/tests/control_db_suite $(BUILD)/tests/control_db_sqlite

$(TESTS_CONTROL_DB): $(BUILD)/tests/control_%: $(BUILD)/tests/control/%.o $(CONTROL_DB_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_DB_LIBS)

TESTS += "$(BUILD)/tests/control_db_suite sqlite://$(CURDIR)/$(BUILD)/tests/control_db_suite.db" $(BUILD)/tests/control_db_sqlite
