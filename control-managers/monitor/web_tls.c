/*
 * web_tls.c: see web_tls.h. libmicrohttpd speaks TLS by GnuTLS. Callers' certificates are checked here by the rules of
 * the control plane (tls.h): authority, dates, use, and ca.crl.
 */
#include "control-managers/monitor/web_tls.h"

#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/common/tls.h"
#include "cpu/common/explain.h"

enum { MOST_PEM = 1 << 20, MOST_CHAIN = 8 };

struct web_tls {
    struct tls_context *checker;
    char *ca, *certificate, *key;
};

/* NULL: why is in *error. */
static char *read_pem(const char *folder, const char *name, char *error)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    char *text = file ? calloc(1, MOST_PEM + 1) : NULL;
    size_t size = text ? fread(text, 1, MOST_PEM, file) : 0;
    if (file)
        fclose(file);
    if (size > 0 && size < MOST_PEM)
        return text;
    snprintf(error, 256, "%.200s cannot be read", path);
    free(text);
    return NULL;
}

int web_tls_load(const char *folder, struct web_tls **out, char *error)
{
    char ca[1100], certificate[1100], key[1100], why[EXPLAIN_SIZE] = "";
    struct web_tls *tls = calloc(1, sizeof *tls);
    if (!tls) {
        snprintf(error, 256, "no memory");
        return -1;
    }
    snprintf(ca, sizeof ca, "%s/ca.crt", folder);
    snprintf(certificate, sizeof certificate, "%s/web.crt", folder);
    snprintf(key, sizeof key, "%s/web.key", folder);
    const struct tls_files files = { .ca = ca, .certificate = certificate, .key = key };
    if (tls_context_create(&files, &tls->checker, why) != 0) {
        snprintf(error, 256, "%.250s", why);
        web_tls_free(tls);
        return -1;
    }
    tls->ca = read_pem(folder, "ca.crt", error);
    tls->certificate = tls->ca ? read_pem(folder, "web.crt", error) : NULL;
    tls->key = tls->certificate ? read_pem(folder, "web.key", error) : NULL;
    if (!tls->key) {
        web_tls_free(tls);
        return -1;
    }
    *out = tls;
    return 0;
}

void web_tls_free(struct web_tls *tls)
{
    if (!tls)
        return;
    tls_context_release(tls->checker);
    if (tls->key)
        explicit_bzero(tls->key, strlen(tls->key));
    free(tls->ca);
    free(tls->certificate);
    free(tls->key);
    free(tls);
}

const char *web_tls_ca(const struct web_tls *tls) { return tls->ca; }

const char *web_tls_certificate(const struct web_tls *tls) { return tls->certificate; }

const char *web_tls_key(const struct web_tls *tls) { return tls->key; }

bool web_tls_rights(const struct web_tls *tls, struct MHD_Connection *connection, struct access_rights *rights)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    struct tls_der chain[MOST_CHAIN];
    char name[TLS_NAME_SIZE];
    unsigned count = 0;
    if (!info || !info->tls_session)
        return false;
    const gnutls_datum_t *shown = gnutls_certificate_get_peers(info->tls_session, &count);
    if (!shown || !count || count > MOST_CHAIN)
        return false;
    for (unsigned i = 0; i < count; i++)
        chain[i] = (struct tls_der){ shown[i].data, shown[i].size };
    if (!tls_context_check_caller(tls->checker, chain, count, name))
        return false;
    if (strncmp(name, "client:", 7) == 0)
        return access_of_role(name, false, rights);
    /* An administrator is ROLE:NAME; what it may see is said by the role. */
    char *colon = strchr(name, ':');
    if (!colon)
        return false;
    *colon = '\0';
    return access_of_role(name, false, rights);
}
