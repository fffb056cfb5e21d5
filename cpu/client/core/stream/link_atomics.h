/* link_atomics.h: what CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED says of each atomic operation. */
#ifndef FLYT_CLIENT_CORE_LINK_ATOMICS_H
#define FLYT_CLIENT_CORE_LINK_ATOMICS_H

/* CUatomicOperation */
enum { LINK_ATOMIC_EXCHANGE = 8, LINK_ATOMIC_CAS = 9, LINK_ATOMIC_FLOAT_ADD = 10, LINK_ATOMIC_OPERATIONS = 13 };

/* CUatomicOperationCapability. The link between the devices carries all that one device can do by itself. */
static inline unsigned link_atomic_capabilities(int operation)
{
    enum { SIGNED = 1, UNSIGNED = 2, REDUCTION = 4, SCALAR_32 = 8, SCALAR_64 = 16, SCALAR_128 = 32 };
    if (operation >= LINK_ATOMIC_FLOAT_ADD)
        return SIGNED | REDUCTION | SCALAR_32 | SCALAR_64;
    if (operation == LINK_ATOMIC_EXCHANGE || operation == LINK_ATOMIC_CAS)
        return SIGNED | UNSIGNED | SCALAR_32 | SCALAR_64 | SCALAR_128;
    return SIGNED | UNSIGNED | REDUCTION | SCALAR_32 | SCALAR_64;
}

#endif
