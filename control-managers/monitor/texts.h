/*
 * texts.h: what the monitor gives out, as whole texts. A text is never changed, only replaced: connections that send it
 * hold it meanwhile, so slow readers neither copy it nor keep the reader waiting.
 *
 * A text of rows, or of samples, can be cut down to what is about one VM.
 */
#ifndef FLYT_MONITOR_TEXTS_H
#define FLYT_MONITOR_TEXTS_H

#include <stddef.h>

struct monitor_text;

/* Takes `bytes` over, which were allocated. NULL: no memory, or bytes is NULL. */
struct monitor_text *text_make(char *bytes, size_t size);
const char *text_bytes(const struct monitor_text *, size_t *size);
struct monitor_text *text_hold(struct monitor_text *); /* any thread */
void text_release(void *text);         /* struct monitor_text *, or NULL; any thread */
size_t texts_held(void);               /* bytes of all that there are; any thread */

/* A JSON array, row by row. */
struct text_rows;
struct text_rows *text_rows_begin(void); /* NULL: no memory */
/* vm: whose row it is; "": nobody's. */
void text_rows_add(struct text_rows *, const char *row, const char *vm);
struct monitor_text *text_rows_end(struct text_rows *); /* NULL: no memory; frees the rows */

/* The rows of the array that are about this VM. NULL: no memory. */
struct monitor_text *text_rows_of_vm(const struct monitor_text *, const char *vm);
/* Of Prometheus' text format: the samples with the label vm of this value, and what describes them. NULL: no memory. */
struct monitor_text *text_samples_of_vm(struct monitor_text *, const char *vm);

#endif
