/*
 * capability.h: which compute capability the software GPU is asked to show, and why.
 *
 * Order of precedence: FLYT_SOFTGPU_CC of the program; then that of the server; then what the software that is loaded
 * needs (capability_table.h); then the server's standard. Another GPU shows what it has.
 */
#ifndef FLYT_CLIENT_CORE_CAPABILITY_H
#define FLYT_CLIENT_CORE_CAPABILITY_H

#include <stdbool.h>
#include <stdint.h>

/* What is known of a process. All zeros: nothing. */
struct capability_view { uint64_t rows; };                            /* bit r: row r of the table is loaded */
void capability_note(struct capability_view *, const char *path);     /* a file that is loaded */
/* The capability that suits what is loaded, times ten; 0: any. *row: which row asks for it. *suits: it suits all. */
unsigned capability_settle(const struct capability_view *, unsigned *row, bool *suits);
const char *capability_name(unsigned row);
/* "9.0" or "90": times ten; 0: it is no compute capability. */
unsigned capability_parse(const char *text);

/* Looks at the process, once per connection: what HELLO's capabilities are to contain. */
uint64_t capability_ask(void);
/* What HELLO says to the server to which a session moves: the program keeps the capability that it has seen. */
uint64_t capability_keep(void);
void capability_report(void);                                         /* a line on stderr */
void capability_report_json(void);                                    /* "compute": {…} */
void capability_log(void);                                            /* FLYT_LOG=info; after the devices are known */

#endif
