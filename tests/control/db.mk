# The resource DB: one suite over each implementation.
TESTS_CONTROL_DB := $(addprefix $(BUILD)/tests/control_db_,suite sqlite mongo)
CFLAGS_tests_control_db_mongo := $(CONTROL_DB_MONGO_FLAGS)

$(TESTS_CONTROL_DB): $(BUILD)/tests/control_%: $(BUILD)/tests/control/%.o $(CONTROL_DB_OBJECTS) $(CONTROL_COMMON_CPU)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(CONTROL_DB_LIBS) $(CONTROL_COMMON_LIBS)

TESTS += "$(BUILD)/tests/control_db_suite sqlite://$(CURDIR)/$(BUILD)/tests/control_db_suite.db" \
    $(BUILD)/tests/control_db_sqlite \
         "tests/control/db_mongo.py $(BUILD)/tests/control_db_suite $(BUILD)/tests/control_db_mongo $(BIN)@sleeps" \
         "tests/control/failover.py $(BIN)@sleeps"
LONG_TESTS += "tests/control/failover.py $(BIN) 120@sleeps,300"
