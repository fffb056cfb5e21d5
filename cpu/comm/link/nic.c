/* nic.c: see nic.h. */
#include "cpu/comm/link/nic.h"

#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value of /sys/class/net/NAME/WHAT; `otherwise` if it is not there. */
static int read_value(const char *name, const char *what, int otherwise)
{
    char path[96];
    int value = otherwise;
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, what);
    FILE *file = fopen(path, "re");
    if (!file)
        return otherwise;
    if (fscanf(file, "%d", &value) != 1)
        value = otherwise;
    fclose(file);
    return value;
}

static bool address_of(const struct sockaddr *at, struct comm_address *address)
{
    *address = (struct comm_address){ .family = 0 };
    if (at && at->sa_family == AF_INET) {
        address->family = 4;
        memcpy(address->bytes, &((const struct sockaddr_in *)at)->sin_addr, 4);
    } else if (at && at->sa_family == AF_INET6 &&
               !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)at)->sin6_addr)) {
        address->family = 6;
        memcpy(address->bytes, &((const struct sockaddr_in6 *)at)->sin6_addr, 16);
    }
    return address->family != 0;
}

static bool usual(const struct ifaddrs *one)
{
    static const char *const left_out[] = { "docker", "veth", "virbr", "br-", "cni", "flannel", "lxc", "podman" };
    if (one->ifa_flags & IFF_LOOPBACK)
        return false;
    for (unsigned i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (strncmp(one->ifa_name, left_out[i], strlen(left_out[i])) == 0)
            return false;
    return true;
}

static struct comm_nic *known(struct comm_nic *nics, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(nics[i].name, name) == 0)
            return &nics[i];
    return NULL;
}

/* Adds a card, or its IPv4 address in place of the IPv6 one that was found first. */
static int add(struct comm_nic *nics, int count, const struct ifaddrs *one)
{
    struct comm_address address;
    struct comm_nic *nic = known(nics, count, one->ifa_name);
    if (!(one->ifa_flags & IFF_UP) || strlen(one->ifa_name) >= sizeof nics->name ||
        !address_of(one->ifa_addr, &address))
        return count;
    if (nic) {
        if (nic->address.family == 6 && address.family == 4)
            nic->address = address;
        return count;
    }
    if (count == COMM_NICS_MOST)
        return count;
    nic = &nics[count];
    snprintf(nic->name, sizeof nic->name, "%s", one->ifa_name);
    nic->address = address;
    int mbit = read_value(one->ifa_name, "speed", 0);
    nic->mbit = mbit > 0 ? (unsigned)mbit : 0;
    nic->numa = read_value(one->ifa_name, "device/numa_node", -1);
    return count + 1;
}

static int drop_slow(struct comm_nic *nics, int count)
{
    unsigned fastest = 0;
    int kept = 0;
    for (int i = 0; i < count; i++)
        fastest = nics[i].mbit > fastest ? nics[i].mbit : fastest;
    for (int i = 0; i < count; i++)
        if (nics[i].mbit == 0 || nics[i].mbit >= fastest / 4)
            nics[kept++] = nics[i];
    return kept;
}

static int named(struct ifaddrs *all, const char *interfaces, struct comm_nic *nics, char *error)
{
    int count = 0;
    for (const char *at = interfaces; *at;) {
        size_t length = strcspn(at, ",");
        int before = count;
        for (struct ifaddrs *one = all; one; one = one->ifa_next)
            if (strlen(one->ifa_name) == length && strncmp(one->ifa_name, at, length) == 0)
                count = add(nics, count, one);
        if (length && count == before)
            return rpc_explain(error, -ENODEV, "links: there is no network card %.*s that is up and has an address, or "
                                               "it is named twice, or there are more than %d",
                               (int)length, at, COMM_NICS_MOST);
        at += length + (at[length] == ',');
    }
    return count;
}

int comm_nic_list(const char *interfaces, struct comm_nic nics[COMM_NICS_MOST], char *error)
{
    struct ifaddrs *all = NULL;
    int count = 0;
    if (getifaddrs(&all) != 0)
        return rpc_explain(error, -errno, "links: the network cards: %s", strerror(errno));
    if (interfaces && *interfaces) {
        count = named(all, interfaces, nics, error);
    } else {
        for (struct ifaddrs *one = all; one; one = one->ifa_next)
            if (usual(one))
                count = add(nics, count, one);
        count = drop_slow(nics, count);
        for (struct ifaddrs *one = all; one && count == 0; one = one->ifa_next)
            if (one->ifa_flags & IFF_LOOPBACK)
                count = add(nics, count, one);
    }
    freeifaddrs(all);
    return count != 0 ? count : rpc_explain(error, -ENODEV, "links: no network card is up and has an address");
}

socklen_t comm_nic_socket_address(const struct comm_address *address, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (address->family == 6) {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)out;
        in->sin6_family = AF_INET6;
        in->sin6_port = htons(address->port);
        memcpy(&in->sin6_addr, address->bytes, 16);
        return sizeof *in;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)out;
    in->sin_family = AF_INET;
    in->sin_port = htons(address->port);
    memcpy(&in->sin_addr, address->bytes, 4);
    return sizeof *in;
}

bool comm_nic_is_own(const struct comm_address *address)
{
    struct ifaddrs *all = NULL;
    struct comm_address one;
    bool own = false;
    if (getifaddrs(&all) != 0)
        return false;
    for (struct ifaddrs *at = all; at && !own; at = at->ifa_next)
        own = address_of(at->ifa_addr, &one) && one.family == address->family &&
              memcmp(one.bytes, address->bytes, sizeof one.bytes) == 0;
    freeifaddrs(all);
    return own;
}
