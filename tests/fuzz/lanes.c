/*
 * lanes: a fuzz target for the data lanes of a session (cpu/server/lanes/lanes_in.c): what a client says on them, in
 * whichever order with the copies that want it. The input is a script. Each step begins with a byte that says what is
 * done:
 *   0  u8 lane, 24 bytes of a record's head as they are, u8 n: so many bytes of payload follow
 *   1  u8 lane, u8 transfer, u32 offset, u32 length: a well-formed record whose payload is made up
 *   2  u8 transfer, u32 size: a copy claims it
 *   3  u8 transfer, u32 size: a copy will never claim it
 *   4  a copy has ended, and gives its slot back
 * After each step every slot is unused, filling, or a copy's, and is so once.
 */
#include "cpu/server/lanes/lane_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LANES = 3, CLAIMS = LANE_WINDOW };

static struct session session;
static struct lanes *lanes;
static rpc_channel *ends[LANES][2];
static struct slot *claimed[CLAIMS];
static unsigned claims;
static uint8_t *memory[LANE_WINDOW]; /* each by itself, so that AddressSanitizer sees what is beyond its end */
static bool over;

/* What lanes_in.c needs of the rest of the server. */
void session_end(struct session *of, const char *why)
{
    (void)of;
    (void)why;
    over = true;
}

void executor_kick(struct session *of) { (void)of; }

static void begin(void)
{
    lanes = calloc(1, sizeof *lanes);
    if (!lanes)
        abort();
    lanes->session = &session;
    session.lanes = lanes;
    pthread_mutex_init(&lanes->lock, NULL);
    pthread_cond_init(&lanes->changed, NULL);
    for (unsigned i = 0; i < LANE_WINDOW; i++)
        if (!memory[i] && !(memory[i] = malloc(LANE_CHUNK)))
            abort();
    lanes->memory = memory[0];
    arrivals_init(lanes);
    for (unsigned i = 0; i < LANE_WINDOW; i++)
        lanes->arrivals[i].slot.memory = memory[i];
    claims = 0;
    over = false;
}

static void end(void)
{
    for (unsigned i = 0; i < LANES; i++)
        for (unsigned e = 0; e < 2; e++) {
            if (ends[i][e])
                rpc_channel_destroy(ends[i][e]);
            ends[i][e] = NULL;
        }
    pthread_cond_destroy(&lanes->changed);
    pthread_mutex_destroy(&lanes->lock);
    free(lanes);
}

/* No slot is lost, and none is in two places. */
static void check(void)
{
    unsigned unused = 0, filling = 0;
    for (const struct slot *slot = lanes->unused; slot; slot = slot->next)
        if (++unused > LANE_WINDOW)
            abort();
    for (unsigned i = 0; i < LANE_WINDOW; i++) {
        filling += lanes->arrivals[i].transfer != 0;
        if (lanes->arrivals[i].receiving)
            abort();
    }
    if (unused != lanes->unused_count || unused + filling + claims != LANE_WINDOW ||
        lanes->discarded_count > LANE_DISCARDED)
        abort();
}

/* A reader that finds no slot waits for one: there is nobody here who would give it one. */
static bool would_wait(uint32_t transfer)
{
    for (unsigned i = 0; i < LANE_WINDOW; i++)
        if (lanes->arrivals[i].transfer == transfer)
            return false;
    return !lanes->unused;
}

/* Over sockets: memory that two processes share has no lanes. */
static void connect_lane(unsigned lane)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 ||
        rpc_channel_from_fd(pair[0], &ends[lane][0], NULL) != 0 ||
        rpc_channel_from_fd(pair[1], &ends[lane][1], NULL) != 0)
        abort();
}

/* A record that ends too early is the end of its lane; the next one there is another connection's. */
static void say(unsigned lane, const uint8_t head[RPC_LANE_HEAD], const uint8_t *payload, size_t size)
{
    static uint8_t made_up[LANE_CHUNK];
    struct rpc_lane_record record;
    const char *why = NULL;
    rpc_lane_get(head, &record);
    if (would_wait(record.transfer))
        return;
    if (!ends[lane][0])
        connect_lane(lane);
    rpc_channel *in = ends[lane][0];
    bool whole = !payload && record.length <= LANE_CHUNK;
    size_t length = payload ? size : whole ? (size_t)record.length : 0;
    /* What does not fit into the connection now would have to be read meanwhile. */
    length = length > 32 * 1024 ? 32 * 1024 : length;
    struct iovec bytes[2] = { { (void *)(uintptr_t)head, RPC_LANE_HEAD },
                              { payload ? (void *)(uintptr_t)payload : made_up, length } };
    if (rpc_channel_send(in, bytes, length ? 2 : 1) != (ssize_t)(RPC_LANE_HEAD + length))
        abort();
    if (length != record.length)
        rpc_channel_shutdown(in); /* what was sent is still read */
    int status = lanes_read(lanes, lane + 1, ends[lane][1], &why);
    if (status == 0 && length == record.length)
        return;
    /* The session ends with a lane that broke: what was half received stays in its slot. Here the next lane goes on. */
    for (unsigned i = 0; i < LANE_WINDOW; i++)
        lanes->arrivals[i].receiving = 0;
    for (unsigned e = 0; e < 2; e++) {
        rpc_channel_destroy(ends[lane][e]);
        ends[lane][e] = NULL;
    }
}

static uint32_t number(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void give_back(void)
{
    if (!claims)
        return;
    struct slot *slot = claimed[--claims];
    lanes_give(&session, slot);
}

static void claim(uint32_t transfer, uint64_t size)
{
    bool scarce;
    struct slot *slot = claims < CLAIMS && transfer ? lanes_claim(&session, transfer, size, &scarce) : NULL;
    if (!slot)
        return;
    /* What the device would read. */
    volatile uint8_t sum = 0;
    for (uint64_t i = 0; i < size; i += 4096)
        sum ^= slot->memory[i];
    claimed[claims++] = slot;
}

/* How many bytes the step takes; 0: there are too few. */
static size_t step(const uint8_t *bytes, size_t size)
{
    uint8_t head[RPC_LANE_HEAD];
    switch (bytes[0] % 5) {
    case 0: {
        size_t n = size >= 27 ? bytes[26] : 0;
        if (size < 27 + n)
            return 0;
        say(bytes[1] % LANES, bytes + 2, bytes + 27, n);
        return 27 + n;
    }
    case 1: {
        if (size < 11)
            return 0;
        struct rpc_lane_record record = { .transfer = bytes[2],
                                          .lane = bytes[1] % LANES + 1u,
                                          .offset = number(bytes + 3) % (LANE_CHUNK + 1),
                                          .length = number(bytes + 7) % (LANE_CHUNK + 1) };
        rpc_lane_put(head, &record);
        say(bytes[1] % LANES, head, NULL, 0);
        return 11;
    }
    case 2:
    case 3:
        if (size < 6)
            return 0;
        /* No copy is of more than a chunk, and each has a transfer (serve_copy looks at that). */
        if (bytes[0] % 5 == 2)
            claim(bytes[1], number(bytes + 2) % LANE_CHUNK + 1);
        else if (bytes[1])
            lanes_discard(&session, bytes[1], number(bytes + 2) % LANE_CHUNK + 1);
        return 6;
    default: give_back(); return 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    begin();
    for (size_t taken; size && !over && (taken = step(bytes, size)) != 0; bytes += taken, size -= taken)
        check();
    end();
    return 0;
}
