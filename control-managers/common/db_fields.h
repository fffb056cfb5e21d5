/*
 * db_fields.h: the rows of db.h as tables of fields, so that each implementation stores and reads all kinds by one
 * piece of code. For the implementations only.
 */
#ifndef FLYT_CONTROL_DB_FIELDS_H
#define FLYT_CONTROL_DB_FIELDS_H

#include "control-managers/common/db.h"
#include "cpu/common/explain.h"

enum db_field_type {
    DB_FIELD_TEXT,   /* char[size] */
    DB_FIELD_NUMBER, /* unsigned or int64_t of `size` bytes; 8 bytes keep their bits */
    DB_FIELD_BOOL,
    DB_FIELD_BYTES /* uint8_t[size], there only if the bool at `flag` is set */
};

struct db_field {
    const char *name;  /* SQLite's column */
    const char *mongo; /* MongoDB's field */
    enum db_field_type type;
    size_t offset, size, flag;
};

/* The first field is the key. */
struct db_table {
    enum db_kind kind;
    const char *name;       /* SQLite's table */
    const char *collection; /* MongoDB's */
    const struct db_field *fields;
    size_t count;
};

enum { DB_TABLES = 6, DB_MAX_FIELDS = 20 };
extern const struct db_table db_tables[DB_TABLES];

/* Index into db_tables; -1: no kind of row. */
int db_table_index(enum db_kind);

int64_t db_field_number(const struct db_field *, const union db_row *);
/* false: does not fit. */
bool db_field_set_number(const struct db_field *, union db_row *, int64_t);
static inline char *db_field_text(const struct db_field *field, const union db_row *row)
{
    return (char *)(uintptr_t)row + field->offset;
}
static inline bool *db_field_flag(const struct db_field *field, const union db_row *row)
{
    return (bool *)((char *)(uintptr_t)row + field->flag);
}
/* false: too long. */
bool db_field_set_text(const struct db_field *, union db_row *, const char *, size_t length);

/* Gives a row of this kind the values that hold where a field is missing: grouping is on, programs have one GPU. */
void db_row_clear(enum db_kind, union db_row *);
size_t db_row_size(enum db_kind); /* of the member of the union that it uses */
/* The row without the unused room of its texts, which is most of it: numbers of 8 bytes, texts with their zero. out: as
   many bytes as db_row_size and 8 for each field. Returns how many it takes. */
size_t db_row_pack(enum db_kind, const union db_row *, unsigned char *out);
/* Reads what db_row_pack wrote for a row of this kind. */
void db_row_unpack(enum db_kind, const unsigned char *, union db_row *);
bool db_row_equal(const struct db_table *, const union db_row *, const union db_row *);
/* Checks the changes of a batch: kinds, actions, keys. 0 or -EINVAL. */
int db_changes_check(const struct db_change *, size_t count, char *error);

#endif
