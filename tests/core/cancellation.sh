#!/bin/sh
# cancellation.sh: every function of cpu/client/core/api_*.h and own_images.h begins by making cancellation deferred, or
# switching it off (cpu/common/cancel.h), except those that take no lock and do not wait, or leave that to core_attach.
set -u
export LC_ALL=C
short="core_attach core_attach_to_use core_changes core_context_active core_context_check core_context_enter
       core_context_primary
       core_count_local core_device core_device_attribute core_device_by_pci_bus_id
       core_device_count core_driver_version core_find_limits core_forked core_function_check
       core_gate_slow_out core_graph_sent core_handle_host_possible
       core_in_host_function core_ipc_capable core_jit_options core_library_of core_sequence_mark
       core_server_address core_speak_for core_sticky core_take_latched"
public=$(sed -n 's/^CORE_API.*[ *]\(core_[a-z_]*\)(.*/\1/p' \
    cpu/client/core/api_*.h cpu/client/core/code/own_images.h | sort -u)
bad=0
for name in $public; do
    for known in $short; do [ "$known" != "$name" ] || continue 2; done
    if ! grep -rh --include='*.c' -A 3 -E "^[a-z].*[ *]$name\(" cpu/client | grep -qE 'CANCEL_(DEFERRED|OFF)'; then
        echo "# $name does not begin with CANCEL_DEFERRED"
        bad=1
    fi
done
count=$(echo "$public" | wc -l)
[ "$count" -gt 50 ] || { echo "# only $count functions were found in api_*.h"; bad=1; }
echo 1..1
[ $bad = 0 ] && echo "ok 1 - $count public functions of the core" || echo "not ok 1 - public functions of the core"
