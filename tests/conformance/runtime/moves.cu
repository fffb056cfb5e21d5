// shows: conformance: random copies of symbols and random batches of copies, legal and illegal ones, against a model on
//   the host, line by line with NVIDIA's runtime
//
// The model is a second copy of all memory, changed on the host. Arguments: a seed, a number of calls.
#include "../suite.h"
#include "../../lib/dice.h"

#if RUNTIME == 12 /* of 12.8 and 12.9 */
extern "C" cudaError_t batch_12(void **, void **, size_t *, size_t, cudaMemcpyAttributes *, size_t *, size_t, size_t *,
                                cudaStream_t) __asm__("cudaMemcpyBatchAsync");
#endif

enum { SIZE = 4096, SLOT = 256, SLOTS = SIZE / SLOT, PLACES = 6 };
enum { SYMBOL, CONSTANT, DEVICE, PINNED, PAGEABLE, MANAGED };

__device__ char symbol[SIZE];
__constant__ char constant[SIZE];
static char *place[PLACES], model[PLACES][SIZE];
static cudaStream_t stream;
static unsigned long long seed = 1;

static unsigned below(unsigned n) { return dice(&seed, n); }

static bool on_host(int p) { return p == PINNED || p == PAGEABLE; }

/* some: the call may have copied a part before it failed. */
static void told(const char *call, cudaError_t result, int documented, bool some)
{
    static char now[SIZE];
    cudaError_t last = cudaGetLastError();
    bool as_model = true;
    MUST(cudaDeviceSynchronize());
    unsigned sum = 17;
    for (int p = 0; p < PLACES; p++) {
        MUST(cudaMemcpy(now, place[p], SIZE, cudaMemcpyDefault));
        as_model = as_model && memcmp(now, model[p], SIZE) == 0;
        for (char c : now)
            sum = sum * 31 + (unsigned char)c;
    }
    printf("%s -> %s", call, cudaGetErrorName(result));
    if (last != result)
        printf(" (last error: %s)", cudaGetErrorName(last));
    if ((documented >= 0 && result != documented) || (!as_model && !some))
        printf(" (documented: %s, memory %s)", cudaGetErrorName((cudaError_t)documented),
               as_model ? "right" : "wrong");
    printf(" %08x\n", sum);
    for (int p = 0; p < PLACES && !as_model; p++)
        MUST(cudaMemcpy(model[p], place[p], SIZE, cudaMemcpyDefault));
}

static size_t size_near(size_t right)
{
    switch (below(10)) {
    case 0: return 0;
    case 1: return SIZE + below(3) - 1;
    case 2: return right ? right - 1 : 0;
    case 3: return below(30) ? right : SIZE_MAX;
    default: return right;
    }
}

static void of_symbol()
{
    char call[200];
    bool to = below(2), async = below(2);
    int s = (int)below(2), p = DEVICE + (int)below(4);
    size_t at = below(2) ? 0 : size_near(below(SIZE)), size = size_near(below(SIZE));
    int right = on_host(p) ? to ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
    int kind = below(8) ? right : below(3) ? (int)cudaMemcpyDefault : (int)below(7);
    bool fits = at <= SIZE && size <= SIZE - at;
    bool contrary = to ? kind == cudaMemcpyDeviceToHost : kind == cudaMemcpyHostToDevice;
    contrary = contrary || kind == cudaMemcpyHostToHost || kind > cudaMemcpyDefault;
    if (!contrary && kind != right && kind != cudaMemcpyDefault)
        return; /* a kind that is contrary to the addresses: symbols.cu */
    if (at >= SIZE && async)
        return; /* NVIDIA's runtime copies what is behind the variable then: docs/limits.md */
    snprintf(call, sizeof call, "%s %s%s: %zu at %zu, place %d, kind %d", to ? "to" : "from",
             s == SYMBOL ? "a variable" : "a constant", async ? ", in a stream" : "", size, at, p, kind);
    const void *key = s == SYMBOL ? (const void *)symbol : (const void *)constant;
    cudaMemcpyKind k = (cudaMemcpyKind)kind;
    int documented = !size                ? -1
                     : contrary && !fits ? -1
                     : contrary          ? cudaErrorInvalidMemcpyDirection
                     : !fits             ? cudaErrorInvalidValue
                                         : cudaSuccess;
    cudaError_t r = to ? async ? cudaMemcpyToSymbolAsync(key, place[p], size, at, k, stream)
                               : cudaMemcpyToSymbol(key, place[p], size, at, k)
                    : async ? cudaMemcpyFromSymbolAsync(place[p], key, size, at, k, stream)
                            : cudaMemcpyFromSymbol(place[p], key, size, at, k);
    if (documented == cudaSuccess)
        memcpy(to ? model[s] + at : model[p], to ? model[p] : model[s] + at, size);
    told(call, r, documented, false);
}

#if RUNTIME >= 12
static void of_batch()
{
    enum { MOST = 6 };
    char call[300];
    void *to[MOST], *from[MOST];
    size_t sizes[MOST], firsts[MOST];
    cudaMemcpyAttributes list[MOST];
    bool used[PLACES][SLOTS] = {};
    size_t count = 1 + below(MOST), sets = 1 + below((unsigned)count);
    int at[MOST][4];
    bool bad = false;
    memset(list, 0, sizeof list);
    /* No copy of a batch writes what another one reads or writes. */
    for (size_t i = 0; i < count; i++) {
        for (int side = 0; side < 2; side++) {
            int p, slot;
            do
                p = (int)below(PLACES), slot = (int)below(SLOTS);
            while (used[p][slot]);
            used[p][slot] = true;
            at[i][side * 2] = p, at[i][side * 2 + 1] = slot;
        }
        to[i] = place[at[i][0]] + at[i][1] * SLOT;
        from[i] = place[at[i][2]] + at[i][3] * SLOT;
        sizes[i] = 1 + below(SLOT);
        firsts[i] = i;
        list[i].srcAccessOrder = (cudaMemcpySrcAccessOrder)(1 + below(3));
        list[i].flags = below(2);
    }
    int trouble = below(5) ? -1 : (int)below(6);
    size_t victim = below((unsigned)count);
    if (trouble == 0 && (at[victim][0] > DEVICE || at[victim][2] > DEVICE)) /* nothing checks the end of other memory */
        trouble = -1;
    switch (trouble) {
    case 0: sizes[victim] = (size_t)1 << 40; break;
    case 1: to[victim] = NULL; break;
    case 2: from[victim] = NULL; break;
    case 3: list[victim % sets].srcAccessOrder = (cudaMemcpySrcAccessOrder)(below(2) ? 0 : 4); break;
    case 4: firsts[0] = 1; break;
    case 5: sets = below(2) ? 0 : count + 1; break;
    default: break;
    }
    bad = trouble >= 0;
    snprintf(call, sizeof call, "a batch of %zu with %zu sets, trouble %d at %zu", count, sets, trouble, victim);
    if (sets > MOST)
        return;
#if RUNTIME == 12
    size_t failed = 77;
    cudaError_t r = batch_12(to, from, sizes, count, list, firsts, sets, &failed, stream);
#else
    cudaError_t r = cudaMemcpyBatchAsync(to, (const void **)from, sizes, count, list, firsts, sets, stream);
#endif
    for (size_t i = 0; i < count && !bad; i++)
        memcpy(model[at[i][0]] + at[i][1] * SLOT, model[at[i][2]] + at[i][3] * SLOT, sizes[i]);
    MUST(cudaDeviceSynchronize());
    for (int p = 0; p < PLACES && bad; p++) /* a driver may have copied what comes before the wrong one */
        MUST(cudaMemcpy(place[p], model[p], SIZE, cudaMemcpyDefault));
    told(call, r, bad ? (int)cudaErrorInvalidValue : (int)cudaSuccess, bad);
}
#endif

int main(int count, char **arguments)
{
    int calls = count > 2 ? atoi(arguments[2]) : 600;
    seed = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    MUST(cudaStreamCreate(&stream));
    MUST(cudaGetSymbolAddress((void **)&place[SYMBOL], symbol));
    MUST(cudaGetSymbolAddress((void **)&place[CONSTANT], constant));
    MUST(cudaMalloc((void **)&place[DEVICE], SIZE));
    MUST(cudaMallocHost((void **)&place[PINNED], SIZE));
    place[PAGEABLE] = (char *)malloc(SIZE);
    MUST(cudaMallocManaged((void **)&place[MANAGED], SIZE));
    for (int p = 0; p < PLACES; p++) {
        for (int i = 0; i < SIZE; i++)
            model[p][i] = (char)(i * (p + 3) + i / 100);
        MUST(cudaMemcpy(place[p], model[p], SIZE, cudaMemcpyDefault));
    }
    for (int i = 0; i < calls; i++) {
#if RUNTIME >= 12
        if (below(2)) {
            of_batch();
            continue;
        }
#endif
        of_symbol();
    }
    return 0;
}
