/*
 * names: error names of the driver API, and what cuGetProcAddress gives for a name.
 *
 * shows: driver entry points: a name means what it meant to the caller's CUDA version
 */
#include "cpu/common/driver_names.h"

#include "tests/lib/unit.h"

static void one(void) {}
static void two(void) {}
static void two_per_thread(void) {}
static void other(void) {}

static const struct driver_entry table[] = {
    { "cuCopy", 2000, 0, one },
    { "cuCopy", 3020, 0, two },
    { "cuCopy", 7000, 1, two_per_thread },
    { "cuOther", 11000, 0, other },
};

static void (*find(const char *name, int version, uint64_t flags, enum driver_entry_status *status))(void)
{
    return driver_entry_find(table, sizeof table / sizeof table[0], name, version, flags, status);
}

TEST(entry_points)
{
    static const struct {
        const char *name; int version; uint64_t flags; void (*address)(void); enum driver_entry_status status;
    } cases[] = {
        { "cuCopy", 2000, 0, one, DRIVER_ENTRY_FOUND }, { "cuCopy", 3019, 0, one, DRIVER_ENTRY_FOUND },
        { "cuCopy", 3020, 1, two, DRIVER_ENTRY_FOUND }, { "cuCopy", 99999, 0, two, DRIVER_ENTRY_FOUND },
        { "cuCopy", -1, 0, two, DRIVER_ENTRY_FOUND }, { "cuCopy", 1999, 0, NULL, DRIVER_ENTRY_TOO_OLD },
        { "cuCopy", 7000, 2, two_per_thread, DRIVER_ENTRY_FOUND }, { "cuCopy", 6999, 2, NULL, DRIVER_ENTRY_TOO_OLD },
        { "cuCopy", 7000, 3, two_per_thread, DRIVER_ENTRY_FOUND }, { "cuOther", 11000, 2, other, DRIVER_ENTRY_FOUND },
        { "cuOther", 10000, 2, NULL, DRIVER_ENTRY_TOO_OLD }, { "cuCopy_v2", 12000, 0, NULL, DRIVER_ENTRY_UNKNOWN },
        { "cuZ", 12000, 0, NULL, DRIVER_ENTRY_UNKNOWN }, { "", 0, 0, NULL, DRIVER_ENTRY_UNKNOWN },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum driver_entry_status status;
        assert_true(find(cases[i].name, cases[i].version, cases[i].flags, &status) == cases[i].address);
        assert_int_equal(status, cases[i].status);
    }
}

static const struct driver_entry generated[] = {
#define ENTRY(name, version, per_thread, symbol) { name, version, per_thread, one },
#include "api/driver/entries.inc"
#undef ENTRY
};

/* The search relies on the order of the rows. */
TEST(generated_rows_are_in_order)
{
    for (size_t i = 1; i < sizeof generated / sizeof generated[0]; i++) {
        const struct driver_entry *a = &generated[i - 1], *b = &generated[i];
        int order = strcmp(a->name, b->name);
        if (!order)
            order = a->per_thread - b->per_thread;
        assert_true(order < 0 || (order == 0 && a->version < b->version));
    }
}

TEST(errors)
{
    assert_string_equal(driver_error_name(0), "CUDA_SUCCESS");
    assert_string_equal(driver_error_text(0), "no error");
    assert_string_equal(driver_error_name(902), "CUDA_ERROR_STREAM_CAPTURE_MERGE");
    assert_string_equal(driver_error_text(902), "operation would result in a merge of separate capture sequences");
    assert_string_equal(driver_error_name(999), "CUDA_ERROR_UNKNOWN");
    assert_null(driver_error_name(-1));
    assert_null(driver_error_name(9));                   /* of the runtime alone */
    assert_null(driver_error_text(1000));
}

int main(void) { return unit_run(NULL, NULL); }
