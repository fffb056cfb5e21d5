/* ranked.c: see ranked.h. */
#include "tests/server/ranked.h"

struct server servers[2];
struct peer peers[2];
static const int session_of[RANKS] = { 0, 0, 1 };
const uint32_t context_of[RANKS] = { 0, 1, 0 }, stream_of[RANKS] = { STREAM, STREAM + 1, STREAM };
uint64_t in[RANKS], out[RANKS];

struct peer *peer_of(int rank) { return &peers[session_of[rank]]; }

void sent(enum clnt_stat status) { assert_true(status == RPC_SUCCESS || status == RPC_TIMEDOUT); }

/* ---- the ranks ---- */

static void link_ranks(uint32_t first)
{
    /* rank 0 and 2: link `first` of both; rank 1 and 2: the next one */
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct link_handles handles[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(linked_listen(&peers[i], first + rank, &handles[i]), 0);
        struct linked_end ends[2] = {
            { &peers[0], first + rank, servers[1].uri[TCP], &handles[1], 8000, .channels = 0 },
            { &peers[1], first + rank, servers[0].uri[TCP], &handles[0], 8000, .channels = 0 }
        };
        linked_join(ends);
        if (ends[0].code || ends[1].code)
            fail_msg("joining: %d %s, %d %s", ends[0].code, ends[0].why, ends[1].code, ends[1].why);
    }
}

char create_why[FLYT_MAX_SHORT];

int comm_create(struct peer *peer, uint32_t comm, uint32_t context, uint32_t rank, uint32_t *links, u_int ranks,
                char place)
{
    comm_create_args args = { .comm = comm, .context = context, .rank = rank, .links = { ranks, links } };
    comm_create_result result;
    memset(args.place, place, sizeof args.place);
    memset(&result, 0, sizeof result);
    enum clnt_stat status = flyt_comm_create_1(&args, &result, peer->stub);
    assert_int_equal(status, RPC_SUCCESS);
    snprintf(create_why, sizeof create_why, "%s", result.why);
    return peer_took(peer, status, (xdrproc_t)xdr_comm_create_result, &result);
}

void comm_up(uint32_t id, uint32_t first_link)
{
    const uint32_t near = FLYT_COMM_NEAR;
    uint32_t links[RANKS][RANKS] = { { near, near, first_link },
                                     { near, near, first_link + 1 },
                                     { first_link, first_link + 1, near } };
    link_ranks(first_link);
    for (uint32_t r = 0; r < RANKS; r++)
        if (comm_create(peer_of((int)r), id + r, context_of[r], r, links[r], RANKS, (char)id))
            fail_msg("rank %u: %s", r, create_why);
}

void links_down(void)
{
    for (uint32_t l = 0; l < 2; l++)
        for (int s = 0; s < 2; s++) {
            link_close_args args = { LINK + l, (char *)(uintptr_t) "" };
            sent(flyt_link_close_1(&args, NULL, peers[s].stub));
        }
}

void begin(void)
{
    static const char *const more[] = { "--links", "tcp://127.0.0.1:*", NULL };
    setenv("FLYT_SOFTGPU_DEVICES", "2", 1);
    for (int i = 0; i < 2; i++) {
        server_start(&servers[i], "software", more);
        peer_open(&peers[i], servers[i].uri[TCP]);
        assert_true(peers[i].hello.capabilities & FLYT_CAP_COLLECTIVES);
    }
    assert_int_equal(PLAIN(&peers[0], context_retain, context_retain_args, { 1, 1 }), 0);
    for (int r = 0; r < RANKS; r++) {
        struct peer *peer = peer_of(r);
        uint64_t size = (2 * AREA / peer->granule + 1) * peer->granule;
        in[r] = peer->base + context_of[r] * size;
        out[r] = in[r] + AREA;
        map_args map = { .context = context_of[r], .address = in[r], .size = size };
        map_result mapped;
        memset(&mapped, 0, sizeof mapped);
        assert_int_equal(peer_took(peer, flyt_map_1(&map, &mapped, peer->stub), (xdrproc_t)xdr_map_result, &mapped), 0);
        stream_create_args stream = { stream_of[r], context_of[r], 1, 0 };
        sent(flyt_stream_create_1(&stream, NULL, peer->stub));
    }
    comm_up(COMM, LINK);
}

void end(void)
{
    for (int i = 0; i < 2; i++) {
        peer_close(&peers[i]);
        server_stop(&servers[i], SIGTERM);
    }
}

/* ---- the calls ---- */

void op(int rank, comm_op_args args)
{
    args.comm = args.comm ? args.comm : COMM + (uint32_t)rank;
    args.stream = args.stream ? args.stream : stream_of[rank];
    args.in = args.in ? args.in : in[rank];
    args.out = args.out ? args.out : out[rank];
    sent(flyt_comm_op_1(&args, NULL, peer_of(rank)->stub));
}

void op_all(comm_op_args args)
{
    for (int r = 0; r < RANKS; r++)
        op(r, args);
}

static int latched[2]; /* by session: what an answer of COMM_STATUS has delivered */

int comm_status(int rank, char why[FLYT_MAX_SHORT])
{
    comm_status_args args = { COMM + (uint32_t)rank };
    comm_status_result result;
    memset(&result, 0, sizeof result);
    assert_int_equal(flyt_comm_status_1(&args, &result, peer_of(rank)->stub), RPC_SUCCESS);
    int status = result.head.result ? -result.head.result : result.status;
    latched[session_of[rank]] = result.head.latched ? result.head.latched : latched[session_of[rank]];
    snprintf(why, FLYT_MAX_SHORT, "%s", result.why);
    xdr_free((xdrproc_t)xdr_comm_status_result, &result);
    return status;
}

void comm_close(int rank, uint32_t comm, const char *why)
{
    comm_close_args args = { comm + (uint32_t)rank, (char *)(uintptr_t)why };
    sent(flyt_comm_close_1(&args, NULL, peer_of(rank)->stub));
}

int synchronise(int rank)
{
    int r = peer_stream_sync(peer_of(rank), stream_of[rank]);
    int earlier = latched[session_of[rank]];
    latched[session_of[rank]] = 0;
    return r ? r : peer_of(rank)->last.latched ? peer_of(rank)->last.latched : earlier;
}

void all_good(void)
{
    char why[FLYT_MAX_SHORT];
    for (int r = 0; r < RANKS; r++) {
        int code = synchronise(r);
        if (code)
            fail_msg("rank %d: %d (%d %s)", r, code, comm_status(r, why), why);
    }
}

void all_end(const char *named)
{
    uint64_t until = clock_now() + CLOCK_NS_PER_SECOND;
    char why[FLYT_MAX_SHORT];
    for (int r = 0; r < RANKS; r++) {
        while (comm_status(r, why) == 0 && clock_now() < until)
            usleep(2000);
        if (comm_status(r, why) <= 0 || !strstr(why, named))
            fail_msg("rank %d: %d %s", r, comm_status(r, why), why);
    }
}

bool goes_on(int rank)
{
    peer_set(peer_of(rank), stream_of[rank], in[rank], 1, 0x1234567, 4);
    return words_at(rank, in[rank], 1)[0] == 0x1234567;
}

/* ---- what ranks give and get ---- */

int32_t value(int rank, unsigned i) { return (int32_t)(rank * 1000 + (int)(i % 977)); }

int32_t sum(unsigned i) { return value(0, i) + value(1, i) + value(2, i); }

void fill(unsigned words)
{
    int32_t *bytes = malloc((size_t)words * 4);
    for (int r = 0; r < RANKS; r++) {
        for (unsigned i = 0; i < words; i++)
            bytes[i] = value(r, i);
        for (unsigned at = 0; at < words; at += 200000) {
            unsigned part = words - at < 200000 ? words - at : 200000;
            peer_copy_in(peer_of(r), stream_of[r], in[r] + at * 4ul, bytes + at, part * 4);
        }
        peer_set(peer_of(r), stream_of[r], out[r], WORDS * RANKS, 0xeeeeeeee, 4);
    }
    free(bytes);
}

int32_t *words_at(int rank, uint64_t address, unsigned words)
{
    static int32_t back[WORDS * RANKS];
    for (unsigned at = 0; at < words; at += 200000) {
        unsigned part = words - at < 200000 ? words - at : 200000;
        assert_int_equal(peer_copy_out(peer_of(rank), stream_of[rank], back + at, address + at * 4ul, part * 4ul), 0);
    }
    return back;
}
