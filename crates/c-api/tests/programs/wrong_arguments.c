/* Arguments that are wrong in each way: wrong_arguments MASTER */
#include <string.h>

#include "check.h"
#include "store_c.h"

#define MIB ((uint64_t)1 << 20)
/* What -1 becomes as a size_t. */
#define NEGATIVE ((size_t)-1)

static const char *const NOT_UTF8 = "\xff\xfe";

static void visit(void *context, const mooncake_object_t *object) {
    (void)context;
    (void)object;
    CHECK(!"visited");
}

/* Every call for one store that has to refuse it: null, destroyed, or not set up. */
static void refuses(mooncake_store_t store) {
    char buffer[8] = "value";
    const char *keys[1] = {"key"};
    void *buffers[1] = {buffer};
    size_t sizes[1] = {5};
    mooncake_slice_t slices[1] = {{buffer, 5}};
    CHECK_EQUAL(mooncake_store_put(store, "key", buffer, 5, NULL), -600);
    CHECK_EQUAL(mooncake_store_put_from(store, "key", buffer, 5, NULL), -600);
    CHECK_EQUAL(mooncake_store_put_slices(store, "key", slices, 1, NULL), -600);
    CHECK_EQUAL(mooncake_store_get_into(store, "key", buffer, 5), -600);
    CHECK_EQUAL(mooncake_store_get_slices(store, "key", slices, 1), -600);
    CHECK_EQUAL(mooncake_store_is_exist(store, "key"), -600);
    CHECK_EQUAL(mooncake_store_get_size(store, "key"), -600);
    CHECK_EQUAL(mooncake_store_remove(store, "key", 1), -600);
    CHECK_EQUAL(mooncake_store_remove_by_regex(store, "key", 1), -600);
    CHECK_EQUAL(mooncake_store_remove_all(store, 1), -600);
    CHECK_EQUAL(mooncake_store_query_by_regex(store, "key", visit, NULL), -600);
    CHECK_EQUAL(mooncake_store_register_buffer(store, buffer, 5), -600);
    CHECK_EQUAL(mooncake_store_unregister_buffer(store, buffer), -600);
    /* Batches say it in each result, or as a whole. */
    int results[1] = {0};
    int64_t lengths[1] = {0};
    int code = mooncake_store_batch_put_from(store, keys, buffers, sizes, 1, NULL, results);
    CHECK_EQUAL(code != 0 ? code : results[0], -600);
    code = mooncake_store_batch_is_exist(store, keys, 1, results);
    CHECK_EQUAL(code != 0 ? code : results[0], -600);
    code = mooncake_store_batch_get_into(store, keys, buffers, sizes, 1, lengths);
    CHECK_EQUAL(code != 0 ? code : lengths[0], -600);
}

static void refuses_setups(const char *master) {
    mooncake_store_t store = mooncake_store_create();
    CHECK_EQUAL(mooncake_store_setup(store, NULL, "P2PHANDSHAKE", 0, 0, "tcp", "", master), -600);
    CHECK_EQUAL(mooncake_store_setup(store, "localhost", NULL, 0, 0, "tcp", "", master), -600);
    CHECK_EQUAL(mooncake_store_setup(store, NOT_UTF8, "", 0, 0, "tcp", "", master), -600);
    CHECK_EQUAL(mooncake_store_setup(store, "localhost", "", 1, 0, "tcp", "", master), -600);
    CHECK_EQUAL(mooncake_store_setup(store, "localhost", "", 0, NEGATIVE, "tcp", "", master), -600);
    CHECK(mooncake_store_setup(store, "localhost", "", NEGATIVE, 0, "tcp", "", master) < 0);
    CHECK_EQUAL(mooncake_store_setup(store, "localhost", "", 0, 0, "carrier", "", master), -600);
    CHECK_EQUAL(mooncake_store_setup(store, "localhost", "", 0, 0, NOT_UTF8, "", master), -600);
    CHECK_EQUAL(mooncake_store_setup(store, "localhost", "", 0, 0, "tcp", "", ""), -600);
    CHECK_EQUAL(mooncake_store_init_all(store, NOT_UTF8, NULL, 0), -600);
    CHECK_EQUAL(mooncake_store_init_all(store, "carrier", NULL, 0), -600);
    CHECK_EQUAL(mooncake_store_health_check(store), 1);
    char name[4] = "???";
    CHECK_EQUAL(mooncake_store_get_hostname(store, name, sizeof name), 0);
    CHECK_EQUAL(strlen(name), 0);
    refuses(store);
    mooncake_store_destroy(store);
    CHECK_EQUAL(mooncake_store_health_check(store), -600);
    refuses(store);
    mooncake_store_destroy(store);
    mooncake_store_destroy(NULL);
}

static void refuses_keys_and_memory(mooncake_store_t store) {
    char buffer[8] = "value";
    static char long_key[4098];
    memset(long_key, 'k', sizeof long_key - 1);
    struct {
        const char *key;
        int code;
    } keys[] = {{NULL, -600}, {NOT_UTF8, -400}, {"", -400}, {long_key, -400}};
    for (size_t at = 0; at < sizeof keys / sizeof keys[0]; ++at) {
        const char *key = keys[at].key;
        int code = keys[at].code;
        mooncake_slice_t slice = {buffer, 5};
        CHECK_EQUAL(mooncake_store_put(store, key, buffer, 5, NULL), code);
        CHECK_EQUAL(mooncake_store_put_from(store, key, buffer, 5, NULL), code);
        CHECK_EQUAL(mooncake_store_put_slices(store, key, &slice, 1, NULL), code);
        CHECK_EQUAL(mooncake_store_get_into(store, key, buffer, 5), code);
        CHECK_EQUAL(mooncake_store_get_slices(store, key, &slice, 1), code);
        CHECK_EQUAL(mooncake_store_is_exist(store, key), code);
        CHECK_EQUAL(mooncake_store_get_size(store, key), code);
        CHECK_EQUAL(mooncake_store_remove(store, key, 1), code);
    }
    struct {
        void *start;
        size_t size;
    } ranges[] = {{NULL, 5}, {buffer, 0}, {buffer, NEGATIVE}, {buffer, NEGATIVE / 2}, {NULL, 0}};
    for (size_t at = 0; at < sizeof ranges / sizeof ranges[0]; ++at) {
        void *start = ranges[at].start;
        size_t size = ranges[at].size;
        mooncake_slice_t slice = {start, size};
        CHECK(mooncake_store_put(store, "key", start, size, NULL) < 0);
        CHECK(mooncake_store_put_from(store, "key", start, size, NULL) < 0);
        CHECK(mooncake_store_put_slices(store, "key", &slice, 1, NULL) < 0);
        CHECK(mooncake_store_get_into(store, "key", start, size) < 0);
        CHECK(mooncake_store_get_slices(store, "key", &slice, 1) < 0);
        CHECK(mooncake_store_register_buffer(store, start, size) < 0);
    }
    CHECK_EQUAL(mooncake_store_put_slices(store, "key", NULL, 1, NULL), -600);
    CHECK_EQUAL(mooncake_store_put_slices(store, "key", NULL, NEGATIVE, NULL), -600);
    CHECK_EQUAL(mooncake_store_put_slices(store, "key", NULL, 0, NULL), -600);
    CHECK_EQUAL(mooncake_store_get_slices(store, "key", NULL, 1), -600);
    CHECK_EQUAL(mooncake_store_unregister_buffer(store, NULL), -600);
    CHECK_EQUAL(mooncake_store_is_exist(store, "key"), 0);
}

static void refuses_memory_that_is_not_mapped(mooncake_store_t store) {
    /* Nothing is mapped on the first pages. */
    void *nowhere = (void *)16;
    char buffer[8] = "value";
    CHECK_EQUAL(mooncake_store_put(store, "mapped", buffer, 5, NULL), 0);
    CHECK(mooncake_store_put(store, "key", nowhere, 5, NULL) < 0);
    CHECK(mooncake_store_put_from(store, "key", nowhere, 5, NULL) < 0);
    CHECK(mooncake_store_get_into(store, "mapped", nowhere, 5) < 0);
    CHECK_EQUAL(mooncake_store_get_into(store, "mapped", buffer, 5), 5);
    CHECK_EQUAL(mooncake_store_remove(store, "mapped", 1), 0);
}

static void refuses_configurations(mooncake_store_t store) {
    const char *names[2] = {"name", NULL};
    const char *broken[1] = {NOT_UTF8};
    mooncake_replicate_config_t configs[] = {
        {.replica_num = NEGATIVE},
        {.replica_num = 1000},
        {.preferred_segments = NULL, .preferred_segments_count = 1},
        {.preferred_segments = names, .preferred_segments_count = 2},
        {.preferred_segments = broken, .preferred_segments_count = 1},
        {.preferred_segments = names, .preferred_segments_count = NEGATIVE},
    };
    for (size_t at = 0; at < sizeof configs / sizeof configs[0]; ++at) {
        CHECK_EQUAL(mooncake_store_put(store, "key", "value", 5, &configs[at]), -600);
    }
    CHECK_EQUAL(mooncake_store_is_exist(store, "key"), 0);
}

static void refuses_arrays(mooncake_store_t store) {
    char buffer[8] = "value";
    const char *keys[3] = {NULL, "good", NOT_UTF8};
    void *buffers[3] = {buffer, buffer, buffer};
    size_t sizes[3] = {5, 5, 5};
    int results[3] = {7, 7, 7};
    int64_t lengths[3] = {7, 7, 7};
    CHECK_EQUAL(mooncake_store_batch_put_from(store, NULL, buffers, sizes, 3, NULL, results), -600);
    CHECK_EQUAL(mooncake_store_batch_put_from(store, keys, NULL, sizes, 3, NULL, results), -600);
    CHECK_EQUAL(mooncake_store_batch_put_from(store, keys, buffers, NULL, 3, NULL, results), -600);
    CHECK_EQUAL(mooncake_store_batch_put_from(store, keys, buffers, sizes, 3, NULL, NULL), -600);
    CHECK_EQUAL(
        mooncake_store_batch_put_from(store, keys, buffers, sizes, NEGATIVE, NULL, results), -600);
    CHECK_EQUAL(mooncake_store_batch_get_into(store, NULL, buffers, sizes, 3, lengths), -600);
    CHECK_EQUAL(mooncake_store_batch_get_into(store, keys, buffers, sizes, 3, NULL), -600);
    CHECK_EQUAL(
        mooncake_store_batch_get_into(store, keys, buffers, sizes, NEGATIVE, lengths), -600);
    CHECK_EQUAL(mooncake_store_batch_is_exist(store, NULL, 3, results), -600);
    CHECK_EQUAL(mooncake_store_batch_is_exist(store, keys, 3, NULL), -600);
    CHECK_EQUAL(mooncake_store_batch_is_exist(store, keys, NEGATIVE, results), -600);
    CHECK_EQUAL(results[0], 7);
    CHECK_EQUAL(lengths[0], 7);

    /* One wrong item does not stop the others. */
    CHECK_EQUAL(mooncake_store_batch_put_from(store, keys, buffers, sizes, 3, NULL, results), 0);
    CHECK(results[0] == -600 && results[1] == 0 && results[2] == -400);
    CHECK_EQUAL(mooncake_store_batch_is_exist(store, keys, 3, results), 0);
    CHECK(results[0] == -600 && results[1] == 1 && results[2] == -400);
    CHECK_EQUAL(mooncake_store_batch_get_into(store, keys, buffers, sizes, 3, lengths), 0);
    CHECK(lengths[0] == -600 && lengths[1] == 5 && lengths[2] == -400);

    /* A batch of nothing is no error. */
    CHECK_EQUAL(mooncake_store_batch_put_from(store, NULL, NULL, NULL, 0, NULL, NULL), 0);
    CHECK_EQUAL(mooncake_store_batch_get_into(store, NULL, NULL, NULL, 0, NULL), 0);
    CHECK_EQUAL(mooncake_store_batch_is_exist(store, NULL, 0, NULL), 0);
}

static void refuses_patterns(mooncake_store_t store) {
    CHECK_EQUAL(mooncake_store_remove_by_regex(store, NULL, 1), -600);
    CHECK_EQUAL(mooncake_store_remove_by_regex(store, NOT_UTF8, 1), -600);
    CHECK_EQUAL(mooncake_store_remove_by_regex(store, "(", 1), -600);
    CHECK_EQUAL(mooncake_store_query_by_regex(store, NULL, visit, NULL), -600);
    CHECK_EQUAL(mooncake_store_query_by_regex(store, "(", visit, NULL), -600);
    CHECK_EQUAL(mooncake_store_query_by_regex(store, "good", NULL, NULL), -600);
    CHECK_EQUAL(mooncake_store_get_hostname(store, NULL, 100), -600);
    char name[1];
    CHECK_EQUAL(mooncake_store_get_hostname(store, name, 0), -600);
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    refuses(NULL);
    refuses((mooncake_store_t)&argc);
    CHECK_EQUAL(mooncake_store_health_check(NULL), -600);
    refuses_setups(argv[1]);

    mooncake_store_t store = mooncake_store_create();
    CHECK_EQUAL(
        mooncake_store_setup(store, "localhost", "", 16 * MIB, 4 * MIB, NULL, NULL, argv[1]), 0);
    CHECK_EQUAL(mooncake_store_setup(store, "localhost", "", 0, 0, "tcp", "", argv[1]), -600);
    refuses_keys_and_memory(store);
    refuses_memory_that_is_not_mapped(store);
    refuses_configurations(store);
    refuses_arrays(store);
    refuses_patterns(store);
    mooncake_store_destroy(store);

    /* Without a local buffer, only the call that copies is refused. */
    store = mooncake_store_create();
    CHECK_EQUAL(
        mooncake_store_setup(store, "localhost", "", 16 * MIB, 0, "tcp", "", argv[1]), 0);
    CHECK_EQUAL(mooncake_store_put(store, "key", "value", 5, NULL), -600);
    char buffer[8] = "value";
    CHECK_EQUAL(mooncake_store_put_from(store, "key", buffer, 5, NULL), 0);
    mooncake_store_destroy(store);

    CHECK(strcmp(mooncake_store_error_name(0), "OK") == 0);
    CHECK(strcmp(mooncake_store_error_name(100), "OK") == 0);
    CHECK(strcmp(mooncake_store_error_name(-704), "OBJECT_NOT_FOUND") == 0);
    CHECK(strcmp(mooncake_store_error_name(-5), "UNKNOWN") == 0);
    return 0;
}
