# The resource DB: db.h by SQLite and by MongoDB, and the thread that owns it. Programs that open it link
# CONTROL_DB_OBJECTS and CONTROL_DB_LIBS beside those of control-managers/common.
CONTROL_DB_MONGO := db_mongo db_mongo_journal db_mongo_lease db_mongo_load db_mongo_rows
CONTROL_DB_OBJECTS := $(call objects,$(addprefix control-managers/common/,db.c db_fields.c db_sqlite.c \
                        $(CONTROL_DB_MONGO:%=%.c)))
# MongoDB's library has another name from its version 2 on.
CONTROL_DB_MONGOC := $(or $(shell for name in libmongoc-1.0 mongoc2; do \
                        if pkg-config --exists $$name 2>/dev/null; then echo $$name; break; fi; done),libmongoc-1.0)
CONTROL_DB_LIBS := -lsqlite3 $(or $(shell pkg-config --libs $(CONTROL_DB_MONGOC) 2>/dev/null),-lmongoc-1.0 -lbson-1.0)
CONTROL_DB_MONGO_FLAGS := $(shell pkg-config --cflags $(CONTROL_DB_MONGOC) 2>/dev/null | sed 's/-I/-isystem /g')
$(foreach file,$(CONTROL_DB_MONGO),$(eval CFLAGS_control-managers_common_$(file) := $(CONTROL_DB_MONGO_FLAGS)))
