/*
 * db_mongo_rows.c: documents of vm_required_resources were written by people in MongoDB's shell (where numbers are
 * doubles) and by other programs: what is not there has a default, what is there must make sense. Documents of our own
 * collections must be whole.
 */
#include "control-managers/common/db_mongo_rows.h"

#include <math.h>
#include <string.h>

static bool read_number(const bson_iter_t *iter, int64_t *number)
{
    switch (bson_iter_type(iter)) {
    case BSON_TYPE_INT32: *number = bson_iter_int32(iter); return true;
    case BSON_TYPE_INT64: *number = bson_iter_int64(iter); return true;
    case BSON_TYPE_BOOL:  *number = bson_iter_bool(iter); return true;
    case BSON_TYPE_DOUBLE: {
        double value = bson_iter_double(iter);
        if (!(fabs(value) < 9e15))      /* where doubles count exactly; refuses NaN too */
            return false;
        *number = (int64_t)value;
        return true;
    }
    default: return false;
    }
}

static bool read_bytes(const bson_iter_t *iter, const struct db_field *field, union db_row *row)
{
    if (!BSON_ITER_HOLDS_BINARY(iter))
        return false;
    bson_subtype_t subtype;
    uint32_t size;
    const uint8_t *bytes;
    bson_iter_binary(iter, &subtype, &size, &bytes);
    if (size != field->size)
        return false;
    memcpy(db_field_text(field, row), bytes, size);
    *db_field_flag(field, row) = true;
    return true;
}

static bool read_field(const bson_iter_t *iter, const struct db_field *field, union db_row *row)
{
    if (field->type == DB_FIELD_BYTES)
        return read_bytes(iter, field, row);
    if (field->type == DB_FIELD_TEXT) {
        uint32_t length;
        const char *text = BSON_ITER_HOLDS_UTF8(iter) ? bson_iter_utf8(iter, &length) : NULL;
        return text && strlen(text) == length && db_field_set_text(field, row, text, length);
    }
    int64_t number;
    bool negative_allowed = field->size == 8;
    return read_number(iter, &number) && (number >= 0 || negative_allowed) && db_field_set_number(field, row, number);
}

/* May this field be missing? Of entitlements only what was always there may not. */
static bool may_be_missing(const struct db_table *table, const struct db_field *field)
{
    if (field->type == DB_FIELD_BYTES)
        return true;
    if (table->kind == DB_NODE)
        return strcmp(field->mongo, "drain_reason") == 0 || strcmp(field->mongo, "gpus") == 0; /* once not written */
    return table->kind == DB_VM && strcmp(field->mongo, "compute_units") != 0 && strcmp(field->mongo, "memory") != 0;
}

bool mongo_row_read(const struct db_table *table, const bson_t *document, union db_row *row, char *problem)
{
    db_row_clear(table->kind, row);
    for (size_t i = 0; i < table->count; i++) {
        const struct db_field *field = &table->fields[i];
        bson_iter_t iter;
        bool there = bson_iter_init_find(&iter, document, field->mongo) && !BSON_ITER_HOLDS_NULL(&iter);
        if (there ? !read_field(&iter, field, row) : !may_be_missing(table, field)) {
            explain(problem, 0, "its field %s %s", field->mongo,
                    there ? "has the wrong type, or is out of range" : "is missing");
            return false;
        }
    }
    if (table->kind != DB_VM)
        return true;
    struct db_vm *vm = &row->vm;
    if ((int64_t)vm->memory_mib < 0) {
        explain(problem, 0, "its field memory is negative");
        return false;
    }
    if (!*vm->name && (!*vm->address || strlen(vm->address) >= sizeof vm->name)) {
        explain(problem, 0, "it has neither a name nor a vm_ip");
        return false;
    }
    if (!*vm->name)
        memcpy(vm->name, vm->address, strlen(vm->address) + 1);
    return true;
}

/* ---- writing ---- */

/* Texts that were cut may end within a character: BSON wants whole ones. */
static void append_text(bson_t *document, const char *key, const char *text)
{
    size_t length = strlen(text);
    if (bson_utf8_validate(text, length, false)) {
        bson_append_utf8(document, key, -1, text, (int)length);
        return;
    }
    char *clean = bson_strdup(text);
    for (char *c = clean; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    bson_append_utf8(document, key, -1, clean, (int)length);
    bson_free(clean);
}

/* compute_units, memory and what is small as int32, as the shell's NumberInt: other programs read them so. */
static void append_number(bson_t *document, const char *key, const struct db_table *table, int64_t number)
{
    if (table->kind == DB_VM && number >= 0 && number <= INT32_MAX)
        bson_append_int32(document, key, -1, (int32_t)number);
    else
        bson_append_int64(document, key, -1, number);
}

static void append_field(bson_t *document, const struct db_table *table, const struct db_field *field,
                         const union db_row *row)
{
    switch (field->type) {
    case DB_FIELD_TEXT:
        append_text(document, field->mongo, db_field_text(field, row));
        break;
    case DB_FIELD_BOOL:
        bson_append_bool(document, field->mongo, -1, db_field_number(field, row) != 0);
        break;
    case DB_FIELD_BYTES:
        bson_append_binary(document, field->mongo, -1, BSON_SUBTYPE_BINARY, (const uint8_t *)db_field_text(field, row),
                           (uint32_t)field->size);
        break;
    case DB_FIELD_NUMBER:
        append_number(document, field->mongo, table, db_field_number(field, row));
        break;
    }
}

void mongo_row_match(const struct db_table *table, enum db_action action, const union db_row *row, bson_t *match)
{
    const struct db_field *key = &table->fields[0];
    bson_init(match);
    if (action == DB_TRIM) {
        bson_t range;
        bson_append_document_begin(match, key->mongo, -1, &range);
        bson_append_int64(&range, "$lte", -1, db_field_number(key, row));
        bson_append_document_end(match, &range);
    } else if (table->kind == DB_VM) {
        /* By name, or the nameless one that has this vm_ip. */
        bson_t either = BSON_INITIALIZER, named, nameless, missing;
        bson_append_document_begin(&either, "0", -1, &named);
        append_text(&named, "name", row->vm.name);
        bson_append_document_end(&either, &named);
        bson_append_document_begin(&either, "1", -1, &nameless);
        bson_append_document_begin(&nameless, "name", -1, &missing);
        bson_append_bool(&missing, "$exists", -1, false);
        bson_append_document_end(&nameless, &missing);
        append_text(&nameless, "vm_ip", row->vm.name);
        bson_append_document_end(&either, &nameless);
        bson_append_array(match, "$or", -1, &either);
        bson_destroy(&either);
    } else {
        append_field(match, table, key, row);
    }
}

void mongo_row_update(const struct db_table *table, const union db_row *row, bson_t *update)
{
    bson_t set, unset;
    bson_init(update);
    bson_append_document_begin(update, "$set", -1, &set);
    for (size_t i = 0; i < table->count; i++) {
        const struct db_field *field = &table->fields[i];
        bool is_id = strcmp(field->mongo, "_id") == 0;
        bool absent = field->type == DB_FIELD_BYTES && !*db_field_flag(field, row);
        if (!is_id && !absent)
            append_field(&set, table, field, row);
    }
    bson_append_document_end(update, &set);
    for (size_t i = 0; i < table->count; i++)
        if (table->fields[i].type == DB_FIELD_BYTES && !*db_field_flag(&table->fields[i], row)) {
            bson_append_document_begin(update, "$unset", -1, &unset);
            bson_append_utf8(&unset, table->fields[i].mongo, -1, "", 0);
            bson_append_document_end(update, &unset);
        }
}
