/*
 * db_mongo_load.c: reads the tables of the resource DB in MongoDB.
 */
#include "control-managers/common/db_mongo_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct row_list { union db_row *rows; size_t count, capacity; };

static int keep_row(struct row_list *list, const union db_row *row)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        union db_row *rows = realloc(list->rows, capacity * sizeof *rows);
        if (!rows)
            return -ENOMEM;
        list->rows = rows;
        list->capacity = capacity;
    }
    list->rows[list->count++] = *row;
    return 0;
}

static int compare_vms(const void *a, const void *b)
{
    return strcmp(((const union db_row *)a)->vm.name, ((const union db_row *)b)->vm.name);
}

/* Sorts by name; of two with one name the first counts. */
static void order_vms(struct row_list *list, char *warning, const char *where)
{
    if (list->count)
        qsort(list->rows, list->count, sizeof *list->rows, compare_vms);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (kept && strcmp(list->rows[kept - 1].vm.name, list->rows[i].vm.name) == 0) {
            explain(warning, 0, "resource DB %s: vm_required_resources has two documents for VM '%s'; one is ignored",
                    where, list->rows[i].vm.name);
            continue;
        }
        if (kept != i)
            list->rows[kept] = list->rows[i];
        kept++;
    }
    list->count = kept;
}

int mongo_load_table(struct mongo_db *mongo, const struct db_table *table, unsigned events, db_visit *visit,
                      void *context, char *error)
{
    struct row_list list = { 0 };
    char warning[EXPLAIN_SIZE] = "", problem[EXPLAIN_SIZE];
    bool newest = table->kind == DB_EVENT;
    bson_t match = BSON_INITIALIZER, options = BSON_INITIALIZER, order;
    bson_error_t failure;
    const bson_t *document;
    int code = 0;
    if (table->kind != DB_VM) {
        bson_append_document_begin(&options, "sort", -1, &order);
        bson_append_int32(&order, "_id", -1, newest ? -1 : 1);
        bson_append_document_end(&options, &order);
        if (newest)
            bson_append_int64(&options, "limit", -1, events);
    }
    mongoc_collection_t *from = mongo_collection(mongo, table->collection);
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(from, &match, &options, NULL);
    while (code == 0 && !(newest && list.count >= events) && mongoc_cursor_next(cursor, &document)) {
        union db_row row;
        if (mongo_row_read(table, document, &row, problem))
            code = keep_row(&list, &row);
        else if (table->kind == DB_VM)
            explain(warning, 0, "resource DB %s: a document of %s is ignored: %s", mongo->where, table->collection,
                    problem);
        else
            code = explain(error, -EBADMSG, "resource DB %s: a document of %s cannot be read: %s", mongo->where,
                           table->collection, problem);
    }
    bool failed = code == 0 && mongoc_cursor_error(cursor, &failure);
    mongoc_cursor_destroy(cursor);
    mongoc_collection_destroy(from);
    bson_destroy(&match);
    bson_destroy(&options);
    if (failed)
        code = mongo_fail(mongo, "cannot read", &failure, error);
    if (code == -ENOMEM)
        explain(error, code, "resource DB %s: no memory for the rows of %s", mongo->where, table->collection);
    if (code == 0 && table->kind == DB_VM) {
        order_vms(&list, warning, mongo->where);
        mongo_warn_once(mongo, warning);
    }
    for (size_t i = 0; code == 0 && i < list.count; i++)
        code = visit(context, table->kind, &list.rows[newest ? list.count - 1 - i : i]);
    free(list.rows);
    return code;
}
