/*
 * access.h: the rights of callers over HTTP.
 *
 *   admin, operator, viewer   everything (by certificate; a token can say viewer)
 *   metrics                   /metrics and /metrics/servers (by token)
 *   client:NAME               what is about this VM (by certificate or token)
 *
 * A file of tokens has a line for each: the role, and the token's SHA-256 in hexadecimal. So the file gives nobody a
 * token.
 */
#ifndef FLYT_MONITOR_ACCESS_H
#define FLYT_MONITOR_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "control-managers/common/protocol.h"

enum { ACCESS_TOKEN_SIZE = 65 };

struct access_tokens;

/* The rights of one caller. */
struct access_rights {
    bool metrics, rows, cluster; /* samples; rows that have a VM, and events; what is about the whole and its nodes */
    char vm[CTL_MAX_NAME + 1];   /* of samples, rows, events only those about this one; "": of all */
    char role[CTL_MAX_NAME + 16];
};

/* role: "viewer", "metrics", "client:NAME", and, unless it is a token's, "operator", "admin". false: it may nothing. */
bool access_of_role(const char *role, bool of_token, struct access_rights *);

/* 0; or -1 and *error (256 bytes), which names the line. */
int access_tokens_load(const char *path, struct access_tokens **, char *error);
void access_tokens_free(struct access_tokens *);
/* authorization: of the head Authorization, may be NULL. false: it has no token that counts. */
bool access_by_token(const struct access_tokens *, const char *authorization, struct access_rights *);
/* A new token, and its line for the file (without a line feed; 256 bytes). false: the role is unknown, or there is no
   randomness. */
bool access_new_token(const char *role, char token[ACCESS_TOKEN_SIZE], char *line);

/* A page of somebody else whose name leads to this machine (DNS rebinding) names itself as the host. host: of the head
   Host, may be NULL. */
bool access_host_fits(const char *host, const char *const *hosts, size_t count);

#endif
