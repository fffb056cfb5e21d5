/* ca.h: what the commands of the certificate authority have in common (cmd_ca.c, cmd_ca_revoke.c). */
#ifndef FLYT_FLYTCTL_CA_H
#define FLYT_FLYTCTL_CA_H

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "control-managers/flytctl/flytctl.h"

enum { CA_PATH_SIZE = 1200 };
enum ca_readers { READ_BY_ALL, READ_BY_DAEMON, READ_BY_OWNER };

/* Each returns an exit code, or NULL; what failed has been said. */
int ca_fail_openssl(struct flytctl *, const char *what);
int ca_write_pem(struct flytctl *, const char *path, BIO *, enum ca_readers);
X509 *ca_read_certificate(struct flytctl *, const char *path);
EVP_PKEY *ca_read_key(struct flytctl *, const char *path);

/* cmd_ca_revoke.c: notes in DIR/issued which number a certificate has, so that it can be revoked by its name. */
int ca_note_issued(struct flytctl *, const char *folder, const X509 *);

#endif
