/* random.c: random collectives. See ranks.h. */
#include "tests/nccl/ranks.h"

void random_collectives(unsigned seed, int calls)
{
    for (int n = 0; n < calls; n++) {
        enum kind kind = (enum kind)((unsigned)rand_r(&seed) % KINDS);
        int part = 1 + rand_r(&seed) % (rand_r(&seed) % 8 ? 500 : COUNT - 1), root = rand_r(&seed) % ranks;
        collective(kind, part, root);
    }
}
