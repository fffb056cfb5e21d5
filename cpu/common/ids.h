/*
 * ids.h: tables that turn numbers into objects in O(1). Two, because the two ends need different things:
 *
 *   id_table   the client's. It hands out the handles that a program holds: 64-bit tokens, made of an index,
 *              a generation, and a kind. A freed, foreign or random token is found out, never followed.
 *              Indexes are dense u32 (`first` upwards): they are the ids that travel. An index is given out
 *              again only after id_release, with another generation.
 *   id_map     the server's. The client chose the ids (dense u32); the map remembers what stands behind each.
 *              A hostile client can make it grow only as far as `limit` says.
 *
 * Both: look-ups take no lock and may run beside everything else; changes are serialised inside. Memory of a
 * slot is never given back before destroy, so a look-up never touches freed memory of the *table*. How long
 * the *object* lives is its owner's affair: who looks up an object that another thread may remove must have
 * its own protection (a reference count taken under a lock, an order of calls, or a session-wide executor).
 */
#ifndef FLYT_COMMON_IDS_H
#define FLYT_COMMON_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t id_token;      /* never 0, never below 65,536: small numbers are CUDA's special handles */

typedef struct id_table id_table;

/* kind: 1…255, distinguishes tokens of different tables. first: the smallest index handed out. NULL: no memory. */
id_table *id_table_create(unsigned kind, uint32_t first);
void      id_table_destroy(id_table *);                     /* the objects are the owner's; NULL is allowed */

/* Takes an index and puts object (not NULL) behind it. 0: no memory, or 2^32 in use. *index may be NULL. */
id_token  id_table_add(id_table *, void *object, uint32_t *index);
void     *id_table_find(const id_table *, id_token);        /* NULL: no such token */
/* Makes the token invalid and gives its object (NULL: it was invalid already, so one of two racing threads
   gets it). The index stays taken until id_table_release: first inform the server, then release. */
void     *id_table_remove(id_table *, id_token);
void      id_table_release(id_table *, uint32_t index);

uint32_t  id_token_index(id_token);
uint32_t  id_table_count(const id_table *);                 /* objects in the table */
/* Calls visit for every object, in order of index; changes by other threads may be seen or not. */
void      id_table_each(id_table *, void (*visit)(void *object, id_token, void *context), void *context);

typedef struct id_map id_map;

/* Ids below limit are accepted. */
id_map *id_map_create(uint32_t limit);
void    id_map_destroy(id_map *);                           /* the objects are the owner's; NULL is allowed */
/* 0; -EEXIST: the id is in use; -ERANGE: id >= limit; -ENOMEM. object is not NULL. */
int     id_map_set(id_map *, uint32_t id, void *object);
void   *id_map_find(const id_map *, uint32_t id);           /* NULL: none */
void   *id_map_remove(id_map *, uint32_t id);               /* NULL: none */
uint32_t id_map_count(const id_map *);
void    id_map_each(id_map *, void (*visit)(uint32_t id, void *object, void *context), void *context);

#endif
