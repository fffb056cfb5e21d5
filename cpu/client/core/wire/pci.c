/* pci.c: finds a device by its PCI address as a program writes it. */
#include <stdio.h>

#include "cpu/client/core/api_session.h"

struct pci_address {
    unsigned domain, bus, device, function;
};

/* [domain]:[bus]:[device].[function], [domain]:[bus]:[device] or [bus]:[device].[function], hexadecimal. */
static bool parse_pci_address(const char *text, struct pci_address *address)
{
    int end = 0;
    *address = (struct pci_address){ 0, 0, 0, 0 };
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &address->domain, &address->bus, &address->device, &address->function,
               &end) == 4 &&
        !text[end])
        return true;
    *address = (struct pci_address){ 0, 0, 0, 0 };
    if (sscanf(text, "%8x:%2x:%2x%n", &address->domain, &address->bus, &address->device, &end) == 3 && !text[end])
        return true;
    *address = (struct pci_address){ 0, 0, 0, 0 };
    return sscanf(text, "%2x:%2x.%1x%n", &address->bus, &address->device, &address->function, &end) == 3 && !text[end];
}

int core_device_by_pci_bus_id(const char *text, int *device)
{
    struct pci_address wanted, has;
    int count, code = core_device_count(&count);
    if (code)
        return code;
    if (!parse_pci_address(text, &wanted))
        return CORE_INVALID_VALUE;
    for (int i = 0; i < count; i++)
        if (parse_pci_address(core_device(i)->pci_bus_id, &has) && has.domain == wanted.domain &&
            has.bus == wanted.bus && has.device == wanted.device) {
            *device = i;
            return CORE_OK;
        }
    return CORE_INVALID_DEVICE;
}
