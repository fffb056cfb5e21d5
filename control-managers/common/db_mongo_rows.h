/* db_mongo_rows.h: rows as MongoDB's documents. For db_mongo.c only. */
#ifndef FLYT_CONTROL_DB_MONGO_ROWS_H
#define FLYT_CONTROL_DB_MONGO_ROWS_H

#include <bson/bson.h>

#include "control-managers/common/db_fields.h"

/* Fills the row. false: *problem says what is wrong with the document. */
bool mongo_row_read(const struct db_table *, const bson_t *document, union db_row *, char *problem);
/* The document that finds the row with this key (for DB_TRIM: all up to it). */
void mongo_row_match(const struct db_table *, enum db_action, const union db_row *, bson_t *match);
/* The update that makes a document this row and leaves fields that are not ours as they are. */
void mongo_row_update(const struct db_table *, const union db_row *, bson_t *update);

#endif
