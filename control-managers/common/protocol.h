/*
 * protocol.h: what rpcgen makes of control_prot.x, and its table of procedures.
 *
 * Structures that rpcgen's code decoded are freed by xdr_free (protocol_free); those that you fill for encoding are
 * yours. A string that is NULL is encoded as "". Decoded strings hold no NUL and were cleaned (protocol_text_clean).
 */
#ifndef FLYT_CONTROL_PROTOCOL_H
#define FLYT_CONTROL_PROTOCOL_H

#include <rpc/rpc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control-managers/common/control_prot.h"
#include "control-managers/common/control_procedures.h"

/* The product name of every software GPU. */
#define PROTOCOL_SOFTWARE_GPU "Flyt software GPU"

typedef struct {
    char nothing;
} ctl_nothing; /* for void */

struct protocol_procedure {
    const char *name; /* NULL: there is none of this number */
    xdrproc_t args, result;
    size_t args_size, result_size; /* of the structures */
};
extern const struct protocol_procedure protocol_procedures[CTL_LAST_PROCEDURE + 1];

/* NULL: unknown number. */
const struct protocol_procedure *protocol_procedure(uint32_t number);

/* Copies src into dst by XDR: a deep copy, to be freed by protocol_free. dst need not be initialised.
   false: no memory, or src is out of bounds. */
bool protocol_copy(xdrproc_t, void *dst, size_t size, const void *src);
void protocol_free(xdrproc_t, void *object);

/* Takes the place of xdr_string in what rpcgen made. */
bool_t protocol_xdr_string(XDR *, char **, u_int max);

/* For people: "no GPU is free" style names of enumerations. Never NULL. */
const char *protocol_code_name(ctl_code); /* "busy" */
const char *protocol_server_state_name(ctl_server_state);
/* Whether a peer of this version can be understood: the same major; of administrators, whose listings grow, the same
   minor. */
bool protocol_version_fits(ctl_role, u_int major, u_int minor);
const char *protocol_role_name(ctl_role);
/* "exclusive,mps"; buffer of PROTOCOL_SHARING_SIZE. Returns buffer. */
enum { PROTOCOL_SHARING_SIZE = 64 };
const char *protocol_sharing_text(unsigned sharing, char *buffer);
/* 0 when text is no list of exclusive, mig, time-slice, mps, any, separated by commas or spaces. */
unsigned protocol_sharing_parse(const char *text);

/* Names of VMs, nodes, GPUs: 1 to CTL_MAX_NAME of [A-Za-z0-9._:-], not beginning with '-' or '.'. */
bool protocol_name_valid(const char *);
/* An IPv4 or IPv6 address in figures. */
bool protocol_address_valid(const char *);
/* An address, or the name of a node or machine. What consists of digits and dots only is meant as an address. */
bool protocol_host_valid(const char *);
/* The kinds of events that a cluster manager reports, ended by NULL. */
extern const char *const protocol_event_kinds[];
/* What must not be shown (cpu/common/text.h) becomes '?', byte by byte, in text of peers for logs and terminals. */
void protocol_text_clean(char *);

#endif
