/*
 * address.h: the URIs of transports.
 *   tcp://host:port       host: a name, an IPv4 address, or an IPv6 address in [ ]
 *   tls://host:port       the same with TLS; for a client with ?sha256=HEX (fingerprint of the server's certificate) or
 *                         ?name=NAME (whom it must name, if not the host); see channel_tls.h
 *   unix:///path          for a listener with ?mode=0660
 *   shm:///path           the same socket, then shared memory or nothing; a listener serves both kinds either way
 */
#ifndef FLYT_RPC_ADDRESS_H
#define FLYT_RPC_ADDRESS_H

#include <stdbool.h>
#include <sys/types.h>

enum rpc_address_kind { RPC_ADDRESS_TCP, RPC_ADDRESS_TLS, RPC_ADDRESS_UNIX, RPC_ADDRESS_SHM };

enum { RPC_HOST_SIZE = 256, RPC_SERVICE_SIZE = 8, RPC_PATH_SIZE = 108, RPC_PIN_SIZE = 65,
       RPC_NAME_SIZE = 128 };

struct rpc_address {
    enum rpc_address_kind kind;
    char   host[RPC_HOST_SIZE];
    char   service[RPC_SERVICE_SIZE];       /* the port, decimal */
    char   path[RPC_PATH_SIZE];
    char   pin[RPC_PIN_SIZE];               /* SHA-256 in lower case, or "" */
    char   name[RPC_NAME_SIZE];             /* or "" */
    mode_t mode;                            /* of a listener's socket file; 0600 unless said otherwise */
};

/* 0, or -EINVAL with the reason in *error (may be NULL). */
int rpc_address_parse(const char *uri, struct rpc_address *, char *error);

#endif
