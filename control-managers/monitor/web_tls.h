/* web_tls.h: the certificate that the monitor shows, and those that its callers show. */
#ifndef FLYT_MONITOR_WEB_TLS_H
#define FLYT_MONITOR_WEB_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "control-managers/monitor/access.h"

struct web_tls;
struct MHD_Connection;

/* From a folder with ca.crt, ca.crl (may be absent), web.crt and web.key. 0; or -1 and *error (256 bytes). */
int web_tls_load(const char *folder, struct web_tls **, char *error);
void web_tls_free(struct web_tls *);
const char *web_tls_ca(const struct web_tls *); /* PEM */
const char *web_tls_certificate(const struct web_tls *);
const char *web_tls_key(const struct web_tls *);
/* What the certificate of the caller allows; false: the caller has shown none that counts. Any thread. */
bool web_tls_rights(const struct web_tls *, struct MHD_Connection *, struct access_rights *);

#endif
