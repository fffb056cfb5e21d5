/*
 * renew.c: gives nodes and VMs their next certificate, before the present one ends, and warns where nobody can.
 *
 * The issuer's key lies in this process and in issuer.key, for the daemon's user. Whoever takes this machine over can
 * make certificates of nodes and VMs with it until the issuer is revoked, and no others (authority.h): the root's key
 * need not be on this machine.
 */
#include <errno.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/cluster.h"
#include "control-managers/common/authority.h"
#include "control-managers/common/tls.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { SOON_DAYS = 30, LOOK_MS = 24 * 3600 * 1000, PAUSE_MS = 900, DAY = 86400 };

int renew_read_issuer(const struct cluster_config *values, struct authority **out, char *error)
{
    char root[1024], certificate[1024], key[1024];
    *out = NULL;
    snprintf(root, sizeof root, "%s/ca.crt", values->tls_folder);
    snprintf(certificate, sizeof certificate, "%s/issuer.crt", values->tls_folder);
    snprintf(key, sizeof key, "%s/issuer.key", values->tls_folder);
    int failure = authority_open(root, certificate, key, out, error);
    return failure == -ENOENT ? 0 : failure;
}

static ctl_code renew(const struct cluster_session *session, const ctl_renew_args *args, char **chain, char *text)
{
    const struct cluster *cluster = session->cluster;
    const struct x509_st *certificate = conn_peer_x509(session->conn);
    char error[EXPLAIN_SIZE] = "";
    if (!cluster->issuer)
        return explain(text, CTL_NOT_SUPPORTED,
                       "the cluster manager has no issuer (`flytctl ca issue DIR issuer NAME`)");
    if (!certificate)
        return explain(text, CTL_DENIED, "only a peer that shows a certificate gets the next one");
    if (conn_revoked(session->conn, cluster->tls))
        return explain(text, CTL_DENIED, "its certificate was revoked");
    int failure = authority_renew(cluster->issuer, certificate, args->request.request_val, args->request.request_len,
                                  (time_t)(cluster->values->certificate_days * DAY), chain, error);
    return failure == 0 ? CTL_OK
                        : explain(text,
                                  failure == -EAGAIN   ? CTL_BUSY
                                  : failure == -EINVAL ? CTL_INVALID
                                  : failure == -EIO    ? CTL_INTERNAL
                                                       : CTL_DENIED,
                                  "%.900s", error);
}

/* When the first certificate of the chain ends. 0: it cannot be read. */
static int64_t chain_ends(const char *chain)
{
    BIO *bio = BIO_new_mem_buf(chain, -1);
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    int64_t ends = certificate ? tls_certificate_ends(certificate) : 0;
    X509_free(certificate);
    BIO_free(bio);
    return ends;
}

void renew_handle(struct conn *conn, struct loop_call *call, void *args)
{
    struct cluster_session *session = conn_context(conn);
    struct cluster *cluster = session->cluster;
    char text[CTL_MAX_TEXT + 1] = "", *chain = NULL;
    /* Each costs a signature, and an event. A daemon asks again after a second at the earliest. */
    bool soon = loop_now(cluster->loop) < session->renew_after;
    ctl_code code = CTL_BUSY;
    if (soon)
        explain(text, CTL_BUSY, "it asks too often");
    else
        code = renew(session, args, &chain, text);
    if (!soon)
        session->renew_after = loop_now(cluster->loop) + PAUSE_MS;
    ctl_renew_result result = { .status = { code, text },
                                .chain = { .chain_len = chain ? (u_int)strlen(chain) : 0, .chain_val = chain } };
    struct event_about which = { .vm = session->vm ? session->vm->row.name : NULL,
                                 .node = session->node ? session->node->row.name : NULL };
    const char *role = protocol_role_name(session->hello.role), *name = session->hello.name;
    if (code == CTL_OK)
        session->certificate_ends = chain_ends(chain);
    if (code == CTL_OK)
        cluster_event(cluster, ADMIN_INFO, "certificate-renewed", &which, "%s:%s has a new certificate", role, name);
    else if (code != CTL_NOT_SUPPORTED && !soon)
        cluster_event(cluster, ADMIN_WARNING, "certificate-refused", &which, "%s:%s: %s", role, name, text);
    call_reply(call, &result);
    free(chain);
}

static void look_at_ages(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    if (!cluster->tls)
        return;
    long days = tls_context_days(cluster->tls);
    if (days < SOON_DAYS)
        cluster_event(cluster, ADMIN_WARNING, "certificate-ends", NULL,
                      "%s ends in %ld days: make a new one (`flytctl ca issue DIR cluster NAME --force`), and reload",
                      tls_context_path(cluster->tls), days);
    if (cluster->issuer && (days = authority_days(cluster->issuer)) < SOON_DAYS)
        cluster_event(
            cluster, ADMIN_WARNING, "certificate-ends", NULL,
            "%s/issuer.crt ends in %ld days: make a new one (`flytctl ca issue DIR issuer NAME --force`), and "
            "reload",
            cluster->values->tls_folder, days);
    loop_timer_start(cluster->loop, timer, LOOK_MS, look_at_ages, cluster);
}

void renew_watch_ages(struct cluster *cluster) { look_at_ages(&cluster->ages, cluster); }
