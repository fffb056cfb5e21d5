/*
 * db_mongo_journal.c: changes as operations, and the journal of batches (see the head of db_mongo.c).
 */
#include "control-managers/common/db_mongo_state.h"

#include <errno.h>
#include <stdio.h>

enum { MAX_JOURNAL = 15 << 20 };

/* ---- operations: { on: collection, match: filter, update: … }; without update: delete all that match ---- */

int mongo_run_operations(struct mongo_db *mongo, const bson_t *operations, char *error)
{
    mongoc_collection_t *collections[DB_TABLES] = { NULL };
    mongoc_bulk_operation_t *bulks[DB_TABLES] = { NULL };
    bson_t upsert = BSON_INITIALIZER, match, update;
    bson_append_bool(&upsert, "upsert", -1, true);
    int code = 0;
    bson_error_t failure;
    bson_iter_t each;
    bson_iter_init(&each, operations);
    while (code == 0 && bson_iter_next(&each)) {
        bson_iter_t in, found;
        const uint8_t *bytes;
        uint32_t size;
        int table = -1;
        if (!bson_iter_recurse(&each, &in) || !bson_iter_find(&in, "on") || (table = bson_iter_int32(&in)) < 0 ||
            table >= DB_TABLES || !bson_iter_recurse(&each, &found) || !bson_iter_find(&found, "match") ||
            !BSON_ITER_HOLDS_DOCUMENT(&found)) {
            code = explain(error, -EBADMSG,
                           "resource DB %s: flyt_journal holds a batch that this version does not understand",
                           mongo->where);
            break;
        }
        bson_iter_document(&found, &size, &bytes);
        if (!bson_init_static(&match, bytes, size)) {
            code = explain(error, -EBADMSG, "resource DB %s: flyt_journal holds a broken batch", mongo->where);
            break;
        }
        if (!bulks[table]) {
            collections[table] = mongo_collection(mongo, db_tables[table].collection);
            bulks[table] = mongoc_collection_create_bulk_operation_with_opts(collections[table], NULL);
        }
        bool taken;
        if (bson_iter_recurse(&each, &found) && bson_iter_find(&found, "update") && BSON_ITER_HOLDS_DOCUMENT(&found)) {
            bson_iter_document(&found, &size, &bytes);
            taken = bson_init_static(&update, bytes, size) &&
                    mongoc_bulk_operation_update_one_with_opts(bulks[table], &match, &update, &upsert, &failure);
        } else {
            taken = mongoc_bulk_operation_remove_many_with_opts(bulks[table], &match, NULL, &failure);
        }
        if (!taken)
            code = explain(error, -EINVAL, "resource DB %s: a change was refused before it was sent: %s", mongo->where,
                           failure.message);
    }
    for (int i = 0; i < DB_TABLES; i++) {
        bson_t reply;
        if (code == 0 && bulks[i]) {
            if (!mongoc_bulk_operation_execute(bulks[i], &reply, &failure))
                code = -1;              /* explained below: the bulks must go before the client does */
            bson_destroy(&reply);
        }
    }
    for (int i = 0; i < DB_TABLES; i++) {
        if (bulks[i])
            mongoc_bulk_operation_destroy(bulks[i]);
        if (collections[i])
            mongoc_collection_destroy(collections[i]);
    }
    bson_destroy(&upsert);
    return code == -1 ? mongo_fail_write(mongo, "cannot write", &failure, error) : code;
}

void mongo_add_operation(bson_t *operations, size_t number, const struct db_change *change)
{
    const int index = db_table_index(change->kind);
    const struct db_table *table = &db_tables[index];
    char key[24];
    bson_t operation, match, update;
    snprintf(key, sizeof key, "%zu", number);
    bson_append_document_begin(operations, key, -1, &operation);
    bson_append_int32(&operation, "on", -1, index);
    mongo_row_match(table, change->action, &change->row, &match);
    bson_append_document(&operation, "match", -1, &match);
    bson_destroy(&match);
    if (change->action == DB_PUT || change->action == DB_INSERT) {
        mongo_row_update(table, &change->row, &update);
        bson_append_document(&operation, "update", -1, &update);
        bson_destroy(&update);
    }
    bson_append_document_end(operations, &operation);
}

/* ---- the journal ---- */

static const char journal_name[] = "flyt_journal";

int mongo_journal_write(struct mongo_db *mongo, const bson_t *operations, char *error)
{
    if (operations->len > MAX_JOURNAL)
        return explain(error, -E2BIG, "resource DB %s: a batch of %u bytes is too large; at most %d fit", mongo->where,
                       operations->len, (int)MAX_JOURNAL);
    /* As bytes: names with $ may not be stored everywhere. */
    bson_t entry = BSON_INITIALIZER;
    bson_error_t failure;
    bson_append_utf8(&entry, "_id", -1, "batch", -1);
    bson_append_binary(&entry, "operations", -1, BSON_SUBTYPE_BINARY, bson_get_data(operations), operations->len);
    mongoc_collection_t *journal = mongo_collection(mongo, journal_name);
    bool written = mongoc_collection_insert_one(journal, &entry, NULL, NULL, &failure);
    mongoc_collection_destroy(journal);
    bson_destroy(&entry);
    return written ? 0 : mongo_fail_write(mongo, "cannot write the journal", &failure, error);
}

int mongo_journal_clear(struct mongo_db *mongo, char *error)
{
    bson_t match = BSON_INITIALIZER;
    bson_error_t failure;
    bson_append_utf8(&match, "_id", -1, "batch", -1);
    mongoc_collection_t *journal = mongo_collection(mongo, journal_name);
    bool cleared = mongoc_collection_delete_many(journal, &match, NULL, NULL, &failure);
    mongoc_collection_destroy(journal);
    bson_destroy(&match);
    return cleared ? 0 : mongo_fail(mongo, "cannot clear the journal", &failure, error);
}

int mongo_journal_read(struct mongo_db *mongo, bson_t **operations, char *error)
{
    *operations = NULL;
    bson_t match = BSON_INITIALIZER;
    bson_error_t failure;
    const bson_t *entry;
    mongoc_collection_t *journal = mongo_collection(mongo, journal_name);
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(journal, &match, NULL, NULL);
    while (mongoc_cursor_next(cursor, &entry)) {
        bson_iter_t iter;
        bson_subtype_t subtype;
        uint32_t size;
        const uint8_t *bytes;
        if (!*operations && bson_iter_init_find(&iter, entry, "operations") && BSON_ITER_HOLDS_BINARY(&iter)) {
            bson_iter_binary(&iter, &subtype, &size, &bytes);
            *operations = bson_new_from_data(bytes, size);
        }
    }
    bool failed = mongoc_cursor_error(cursor, &failure);
    mongoc_cursor_destroy(cursor);
    mongoc_collection_destroy(journal);
    bson_destroy(&match);
    if (!failed)
        return 0;
    bson_destroy(*operations);
    *operations = NULL;
    return mongo_fail(mongo, "cannot read the journal", &failure, error);
}
