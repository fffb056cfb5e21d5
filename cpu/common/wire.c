#include "cpu/common/wire.h"

#include <errno.h>
#include <string.h>

enum { RPC_VERSION = 2 };
_Static_assert(AUTH_NONE == 0, "get_usual_call compares with zeros");

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer calls this. libtirpc reads the padding behind short opaque data of all threads into one buffer, whose
   content nobody uses. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "called_from_lib:libtirpc.so\n"; }
#endif

static bool_t put_words(XDR *xdr, const uint32_t *words, size_t count)
{
    int32_t *at = XDR_INLINE(xdr, (u_int)(count * 4));      /* all at once, where that can be */
    if (at) {
        for (size_t i = 0; i < count; i++)
            at[i] = (int32_t)htonl(words[i]);
        return TRUE;
    }
    for (size_t i = 0; i < count; i++) {
        long value = (long)words[i];
        if (!XDR_PUTLONG(xdr, &value))
            return FALSE;
    }
    return TRUE;
}

bool_t rpc_wire_put_call(XDR *xdr, uint32_t xid, uint32_t program, uint32_t version, uint32_t procedure)
{
    const uint32_t words[RPC_WIRE_CALL_WORDS] = {
        xid, CALL, RPC_VERSION, program, version, procedure,
        AUTH_NONE, 0, AUTH_NONE, 0,             /* credential, verifier: flavor, length */
    };
    return put_words(xdr, words, RPC_WIRE_CALL_WORDS);
}

void rpc_wire_call_room(uint8_t room[RPC_WIRE_CALL_ROOM], uint32_t xid, uint32_t program, uint32_t version,
                        uint32_t procedure, size_t size)
{
    const uint32_t words[] = {
        htonl((uint32_t)(RPC_WIRE_CALL_WORDS * 4 + size) | RPC_MARK_LAST), htonl(xid), htonl(CALL), htonl(RPC_VERSION),
        htonl(program), htonl(version), htonl(procedure), htonl(AUTH_NONE), 0, htonl(AUTH_NONE), 0,
    };
    _Static_assert(sizeof words == RPC_WIRE_CALL_ROOM, "a mark, and the head of a call");
    memcpy(room, words, sizeof words);
}

bool_t rpc_wire_put_accepted(XDR *xdr, uint32_t xid, enum accept_stat status)
{
    const uint32_t words[RPC_WIRE_REPLY_WORDS] = { xid, REPLY, MSG_ACCEPTED, AUTH_NONE, 0, status };
    return put_words(xdr, words, RPC_WIRE_REPLY_WORDS);
}

bool_t rpc_wire_put_version_mismatch(XDR *xdr, uint32_t xid)
{
    const uint32_t words[] = { xid, REPLY, MSG_DENIED, RPC_MISMATCH, RPC_VERSION, RPC_VERSION };
    return put_words(xdr, words, sizeof words / sizeof words[0]);
}

bool_t rpc_wire_put_auth_error(XDR *xdr, uint32_t xid, enum auth_stat why)
{
    const uint32_t words[] = { xid, REPLY, MSG_DENIED, AUTH_ERROR, why };
    return put_words(xdr, words, sizeof words / sizeof words[0]);
}

/* ---- reading ---- */

struct reader {
    const uint8_t *at, *end;
    bool           failed;
};

static uint32_t get(struct reader *reader)
{
    if (reader->end - reader->at < 4) {
        reader->failed = true;
        return 0;
    }
    const uint8_t *at = reader->at;
    reader->at += 4;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Skips an opaque_auth; gives its flavor. */
static uint32_t get_auth(struct reader *reader)
{
    uint32_t flavor = get(reader), length = get(reader);
    if (length > MAX_AUTH_BYTES || (size_t)(reader->end - reader->at) < RNDUP(length))
        reader->failed = true;
    else
        reader->at += RNDUP(length);
    return flavor;
}

/* Nearly every call: no credentials. The credential's flavor and length and the verifier's are zeros. */
static bool get_usual_call(const uint8_t *bytes, size_t size, struct rpc_wire_call *call)
{
    uint32_t words[RPC_WIRE_CALL_WORDS];
    if (size < sizeof words)
        return false;
    memcpy(words, bytes, sizeof words);
    if (words[1] != htonl(CALL) || words[2] != htonl(RPC_VERSION) || (words[6] | words[7] | words[8] | words[9]) != 0)
        return false;
    *call = (struct rpc_wire_call){
        .xid = ntohl(words[0]),
        .rpc_version = RPC_VERSION,
        .program = ntohl(words[3]),
        .version = ntohl(words[4]),
        .procedure = ntohl(words[5]),
        .flavor = AUTH_NONE,
        .body = bytes + sizeof words,
        .body_size = size - sizeof words,
    };
    return true;
}

int rpc_wire_get_call(const uint8_t *bytes, size_t size, struct rpc_wire_call *call)
{
    if (get_usual_call(bytes, size, call))
        return 0;
    struct reader reader = { bytes, bytes + size, false };
    *call = (struct rpc_wire_call){ .xid = get(&reader) };
    if (get(&reader) != CALL || reader.failed)
        return -EPROTO;
    call->rpc_version = get(&reader);
    if (call->rpc_version != RPC_VERSION)       /* what follows may look different */
        return reader.failed ? -EPROTO : 0;
    call->program = get(&reader);
    call->version = get(&reader);
    call->procedure = get(&reader);
    call->flavor = get_auth(&reader);
    get_auth(&reader);
    call->body = reader.at;
    call->body_size = (size_t)(reader.end - reader.at);
    return reader.failed ? -EPROTO : 0;
}

static enum clnt_stat accepted_status(uint32_t status)
{
    switch (status) {
    case SUCCESS:       return RPC_SUCCESS;
    case PROG_UNAVAIL:  return RPC_PROGUNAVAIL;
    case PROG_MISMATCH: return RPC_PROGVERSMISMATCH;
    case PROC_UNAVAIL:  return RPC_PROCUNAVAIL;
    case GARBAGE_ARGS:  return RPC_CANTDECODEARGS;
    case SYSTEM_ERR:    return RPC_SYSTEMERROR;
    default:            return RPC_FAILED;
    }
}

int rpc_wire_get_reply(const uint8_t *bytes, size_t size, struct rpc_wire_reply *reply)
{
    struct reader reader = { bytes, bytes + size, false };
    *reply = (struct rpc_wire_reply){ .xid = get(&reader) };
    if (get(&reader) != REPLY || reader.failed)
        return -EPROTO;
    switch (get(&reader)) {
    case MSG_ACCEPTED:
        get_auth(&reader);
        reply->status = accepted_status(get(&reader));
        break;
    case MSG_DENIED:
        reply->status = get(&reader) == RPC_MISMATCH ? RPC_VERSMISMATCH : RPC_AUTHERROR;
        break;
    default:
        return -EPROTO;
    }
    reply->body = reader.at;
    reply->body_size = (size_t)(reader.end - reader.at);
    return reader.failed ? -EPROTO : 0;
}

bool rpc_wire_decode(const uint8_t *body, size_t size, xdrproc_t proc, void *object)
{
    XDR xdr;
    xdrmem_create(&xdr, (char *)body, (u_int)size, XDR_DECODE);
    if (proc(&xdr, object) && xdr_getpos(&xdr) == size)
        return true;
    /* rpcgen's code leaves behind what it had decoded before the fault */
    xdr_free(proc, object);
    return false;
}
