#include "control-managers/common/db_fields.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define SIZE_OF(type, member) sizeof(((struct type *)0)->member)
#define TEXT(type, member, column, field)                                                     \
    {                                                                                         \
        column, field, DB_FIELD_TEXT, offsetof(struct type, member), SIZE_OF(type, member), 0 \
    }
#define NUMBER(type, member, column, field)                                                     \
    {                                                                                           \
        column, field, DB_FIELD_NUMBER, offsetof(struct type, member), SIZE_OF(type, member), 0 \
    }
#define FLAG(type, member, column, field)                                                     \
    {                                                                                         \
        column, field, DB_FIELD_BOOL, offsetof(struct type, member), SIZE_OF(type, member), 0 \
    }
#define BYTES(type, member, has, column)                                                                              \
    { column, column, DB_FIELD_BYTES, offsetof(struct type, member), SIZE_OF(type, member), offsetof(struct type, has) }

/* vm_ip, host_ip, compute_units and memory are what existing installations have. */
static const struct db_field vm_fields[] = {
    TEXT(db_vm, name, "name", "name"),
    TEXT(db_vm, address, "address", "vm_ip"),
    TEXT(db_vm, host, "host", "host_ip"),
    NUMBER(db_vm, sms, "sms", "compute_units"),
    NUMBER(db_vm, memory_mib, "memory_mib", "memory"),
    NUMBER(db_vm, sharing, "sharing", "sharing"),
    FLAG(db_vm, grouping, "grouping", "grouping"),
    NUMBER(db_vm, wait, "wait", "wait"),
    NUMBER(db_vm, gpus, "gpus", "gpus"),
    FLAG(db_vm, spread, "spread", "spread"),
    TEXT(db_vm, recovery, "recovery", "recovery"),
    BYTES(db_vm, stored, has_stored, "stored"),
};
static const struct db_field node_fields[] = {
    TEXT(db_node, name, "name", "_id"),           TEXT(db_node, host, "host", "host"),
    FLAG(db_node, drained, "drained", "drained"), NUMBER(db_node, last_heard, "last_heard", "last_heard"),
    BYTES(db_node, stored, has_stored, "stored"), TEXT(db_node, drain_reason, "drain_reason", "drain_reason"),
    TEXT(db_node, gpus, "gpus", "gpus"),
};
static const struct db_field server_fields[] = {
    NUMBER(db_server, id, "id", "_id"),
    TEXT(db_server, vm, "vm", "vm"),
    TEXT(db_server, node, "node", "node"),
    TEXT(db_server, gpus, "gpu", "gpu"),
    NUMBER(db_server, sharing, "sharing", "sharing"),
    NUMBER(db_server, sms, "sms", "sms"),
    NUMBER(db_server, memory, "memory", "memory"),
    NUMBER(db_server, program, "program", "program"),
    NUMBER(db_server, state, "state", "state"),
    NUMBER(db_server, created, "created", "created"),
    NUMBER(db_server, set, "of_set", "set"),
    FLAG(db_server, spread, "spread", "spread"),
};
static const struct db_field event_fields[] = {
    NUMBER(db_event, number, "number", "_id"),
    NUMBER(db_event, time, "time", "time"),
    NUMBER(db_event, severity, "severity", "severity"),
    TEXT(db_event, kind, "kind", "kind"),
    TEXT(db_event, vm, "vm", "vm"),
    TEXT(db_event, node, "node", "node"),
    NUMBER(db_event, server, "server", "server"),
    NUMBER(db_event, program, "program", "program"),
    TEXT(db_event, text, "text", "text"),
};
static const struct db_field meta_fields[] = {
    TEXT(db_meta, key, "key", "_id"),
    TEXT(db_meta, value, "value", "value"),
};

static const struct db_field usage_fields[] = {
    NUMBER(db_usage, id, "id", "_id"),
    NUMBER(db_usage, kind, "kind", "kind"),
    NUMBER(db_usage, program, "program", "program"),
    NUMBER(db_usage, server, "server", "server"),
    NUMBER(db_usage, epoch, "epoch", "epoch"),
    TEXT(db_usage, vm, "vm", "vm"),
    TEXT(db_usage, node, "node", "node"),
    TEXT(db_usage, gpu, "gpu", "gpu"),
    NUMBER(db_usage, uid, "uid", "uid"),
    TEXT(db_usage, executable, "executable", "executable"),
    NUMBER(db_usage, sms, "sms", "sms"),
    NUMBER(db_usage, memory, "memory", "memory"),
    NUMBER(db_usage, begun, "begun", "begun"),
    NUMBER(db_usage, ended, "ended", "ended"),
    NUMBER(db_usage, accrued, "accrued", "accrued"),
    NUMBER(db_usage, sm_us, "sm_us", "sm_us"),
    NUMBER(db_usage, programs, "programs", "programs"),
    TEXT(db_usage, why, "why", "why"),
    TEXT(db_usage, figures, "figures", "figures"),
};

#define TABLE(kind, name, collection, fields) { kind, name, collection, fields, sizeof fields / sizeof fields[0] }
const struct db_table db_tables[DB_TABLES] = {
    TABLE(DB_VM, "vms", "vm_required_resources", vm_fields),
    TABLE(DB_NODE, "nodes", "flyt_nodes", node_fields),
    TABLE(DB_SERVER, "servers", "flyt_servers", server_fields),
    TABLE(DB_EVENT, "events", "flyt_events", event_fields),
    TABLE(DB_META, "meta", "flyt_meta", meta_fields),
    TABLE(DB_USAGE, "usage", "flyt_usage", usage_fields),
};

int db_table_index(enum db_kind kind)
{
    for (int i = 0; i < DB_TABLES; i++)
        if (db_tables[i].kind == kind)
            return i;
    return -1;
}

int64_t db_field_number(const struct db_field *field, const union db_row *row)
{
    const void *at = (const char *)row + field->offset;
    if (field->type == DB_FIELD_BOOL)
        return *(const bool *)at;
    uint32_t word;
    int64_t number;
    switch (field->size) {
    case 1: return *(const uint8_t *)at;
    case 4: memcpy(&word, at, sizeof word); return word;
    default: memcpy(&number, at, sizeof number); return number;
    }
}

bool db_field_set_number(const struct db_field *field, union db_row *row, int64_t number)
{
    void *at = (char *)row + field->offset;
    if (field->type == DB_FIELD_BOOL) {
        *(bool *)at = number != 0;
        return true;
    }
    switch (field->size) {
    case 1:
        if (number < 0 || number > UINT8_MAX)
            return false;
        *(uint8_t *)at = (uint8_t)number;
        return true;
    case 4: {
        if (number < 0 || number > UINT32_MAX)
            return false;
        uint32_t word = (uint32_t)number;
        memcpy(at, &word, sizeof word);
        return true;
    }
    default:
        memcpy(at, &number, sizeof number);
        return true;
    }
}

bool db_field_set_text(const struct db_field *field, union db_row *row, const char *text, size_t length)
{
    if (length >= field->size)
        return false;
    memcpy(db_field_text(field, row), text, length);
    db_field_text(field, row)[length] = '\0';
    return true;
}

size_t db_row_size(enum db_kind kind)
{
    switch (kind) {
    case DB_VM:     return sizeof(struct db_vm);
    case DB_NODE:   return sizeof(struct db_node);
    case DB_SERVER: return sizeof(struct db_server);
    case DB_EVENT:  return sizeof(struct db_event);
    case DB_META:   return sizeof(struct db_meta);
    case DB_USAGE:  return sizeof(struct db_usage);
    default:        return sizeof(union db_row);
    }
}

void db_row_clear(enum db_kind kind, union db_row *row)
{
    memset(row, 0, db_row_size(kind));
    if (kind == DB_VM) {
        row->vm.grouping = true;
        row->vm.gpus = 1;
    }
}

size_t db_row_pack(enum db_kind kind, const union db_row *row, unsigned char *out)
{
    const struct db_table *table = &db_tables[db_table_index(kind)];
    unsigned char *at = out;
    for (size_t i = 0; i < table->count; i++) {
        const struct db_field *field = &table->fields[i];
        const char *text = db_field_text(field, row);
        size_t size = field->type == DB_FIELD_TEXT ? strlen(text) + 1 : field->size;
        if (field->type == DB_FIELD_TEXT || field->type == DB_FIELD_BYTES) {
            if (field->type == DB_FIELD_BYTES)
                *at++ = *db_field_flag(field, row);
            memcpy(at, text, size);
            at += size;
        } else {
            int64_t number = db_field_number(field, row);
            memcpy(at, &number, sizeof number);
            at += sizeof number;
        }
    }
    return (size_t)(at - out);
}

void db_row_unpack(enum db_kind kind, const unsigned char *at, union db_row *row)
{
    const struct db_table *table = &db_tables[db_table_index(kind)];
    for (size_t i = 0; i < table->count; i++) {
        const struct db_field *field = &table->fields[i];
        char *text = db_field_text(field, row);
        size_t size = field->type == DB_FIELD_TEXT ? strlen((const char *)at) + 1 : field->size;
        if (field->type == DB_FIELD_TEXT || field->type == DB_FIELD_BYTES) {
            if (field->type == DB_FIELD_BYTES)
                *db_field_flag(field, row) = *at++ != 0;
            memcpy(text, at, size);
            at += size;
        } else {
            int64_t number;
            memcpy(&number, at, sizeof number);
            db_field_set_number(field, row, number);
            at += sizeof number;
        }
    }
}

bool db_row_equal(const struct db_table *table, const union db_row *a, const union db_row *b)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct db_field *field = &table->fields[i];
        bool equal;
        if (field->type == DB_FIELD_TEXT)
            equal = strcmp(db_field_text(field, a), db_field_text(field, b)) == 0;
        else if (field->type == DB_FIELD_BYTES)
            equal = *db_field_flag(field, a) == *db_field_flag(field, b) &&
                    (!*db_field_flag(field, a) ||
                     memcmp(db_field_text(field, a), db_field_text(field, b), field->size) == 0);
        else
            equal = db_field_number(field, a) == db_field_number(field, b);
        if (!equal)
            return false;
    }
    return true;
}

int db_changes_check(const struct db_change *changes, size_t count, char *error)
{
    for (size_t i = 0; i < count; i++) {
        const struct db_change *change = &changes[i];
        int index = db_table_index(change->kind);
        if (index < 0)
            return explain(error, -EINVAL, "change %zu of a batch for the resource DB: there is no kind %d of row", i,
                           (int)change->kind);
        bool allowed = change->action == DB_PUT || change->action == DB_DELETE ||
                       (change->action == DB_INSERT && change->kind == DB_VM) ||
                       (change->action == DB_TRIM && change->kind == DB_EVENT);
        if (!allowed)
            return explain(error, -EINVAL, "change %zu of a batch for the resource DB: action %d does not exist for %s",
                           i, (int)change->action, db_tables[index].name);
        const struct db_field *key = &db_tables[index].fields[0];
        if (key->type == DB_FIELD_TEXT ? !*db_field_text(key, &change->row) : db_field_number(key, &change->row) < 0)
            return explain(error, -EINVAL, "change %zu of a batch for the resource DB: a row of %s without a valid key",
                           i, db_tables[index].name);
    }
    return 0;
}
