/*
 * renewal.h: a daemon's certificate is renewed before it ends. The daemon makes a key and asks the cluster manager,
 * over the connection that its present certificate proves, for a certificate of the same name (CTL_RENEW). The key
 * leaves the process only for the file beside its state: key, certificate and the issuer's in one, which takes the
 * place of the older one at once (rename), so that at no moment a key and a certificate lie there that do not fit
 * together.
 */
#ifndef FLYT_CONTROL_RENEWAL_H
#define FLYT_CONTROL_RENEWAL_H

#include "control-managers/common/link.h"
#include "control-managers/common/tls.h"

enum { RENEWAL_PATH_SIZE = 4096 };

/* Where a daemon keeps it. False: the path is too long. */
bool renewal_path(const char *state_folder, char path[RENEWAL_PATH_SIZE]);

/* Lets files->certificate and files->key point to the renewed file where that counts: it is of the same authority and
   name as the configured certificate, and newer. *error says why a file that is there does not; "" otherwise. */
void renewal_pick(struct tls_files *files, const char *renewed, char *error);

struct renewal;

/* Looks at *now from time to time; what it points to is replaced, for this link too, and the link connects again. The
   texts in files and the pointers stay the caller's, and must last. *now NULL: there is nothing to renew. NULL: no
   memory. */
struct renewal *renewal_start(struct loop *, struct link *, const struct tls_files *, const char *renewed,
                              struct tls_context **now);
void renewal_look(struct renewal *); /* soon: *now has changed */
void renewal_stop(struct renewal *); /* NULL is allowed; once its link is closed */

#endif
