/* Every function of store_c.h on a pool: calls MASTER */
#define _POSIX_C_SOURCE 200112L
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "store_c.h"

#define MIB ((uint64_t)1 << 20)

static mooncake_store_t open_store(const char *master, uint64_t segment) {
    mooncake_store_t store = mooncake_store_create();
    CHECK(store != NULL);
    CHECK_EQUAL(mooncake_store_health_check(store), 1);
    CHECK_EQUAL(mooncake_store_setup(store, "localhost", "P2PHANDSHAKE", segment, 4 * MIB, "tcp",
                                     "", master),
                0);
    CHECK_EQUAL(mooncake_store_health_check(store), 0);
    return store;
}

/* Bytes that depend on the seed and on the position. */
static void fill(unsigned char *bytes, size_t size, unsigned seed) {
    for (size_t at = 0; at < size; ++at) bytes[at] = (unsigned char)(seed * 31 + at * 7 + at / 251);
}

static bool is_filled(const unsigned char *bytes, size_t size, unsigned seed) {
    for (size_t at = 0; at < size; ++at) {
        if (bytes[at] != (unsigned char)(seed * 31 + at * 7 + at / 251)) return false;
    }
    return true;
}

static void one_object(mooncake_store_t store) {
    unsigned char value[10000], found[10001];
    fill(value, sizeof value, 1);
    CHECK_EQUAL(mooncake_store_is_exist(store, "one"), 0);
    CHECK_EQUAL(mooncake_store_get_size(store, "one"), -704);
    CHECK_EQUAL(mooncake_store_get_into(store, "one", found, sizeof found), -704);
    CHECK_EQUAL(mooncake_store_remove(store, "one", 0), -704);

    CHECK_EQUAL(mooncake_store_put(store, "one", value, sizeof value, NULL), 0);
    CHECK_EQUAL(mooncake_store_put(store, "one", found, 5, NULL), 0);
    CHECK_EQUAL(mooncake_store_is_exist(store, "one"), 1);
    CHECK_EQUAL(mooncake_store_get_size(store, "one"), sizeof value);
    CHECK_EQUAL(mooncake_store_get_into(store, "one", found, 9999), -600);
    CHECK_EQUAL(mooncake_store_get_into(store, "one", found, sizeof found), sizeof value);
    CHECK(is_filled(found, sizeof value, 1));

    CHECK_EQUAL(mooncake_store_remove(store, "one", 0), -706);
    CHECK_EQUAL(mooncake_store_remove(store, "one", 1), 0);
    CHECK_EQUAL(mooncake_store_is_exist(store, "one"), 0);
}

static void batches(mooncake_store_t store) {
    enum { COUNT = 3, SIZE = 5000 };
    static unsigned char values[COUNT][SIZE], found[COUNT + 1][SIZE];
    const char *keys[COUNT + 1] = {"batch-0", "batch-1", "batch-2", "batch-missing"};
    void *sources[COUNT], *targets[COUNT + 1];
    size_t sizes[COUNT + 1] = {SIZE, SIZE, SIZE, SIZE};
    for (unsigned at = 0; at < COUNT; ++at) {
        fill(values[at], SIZE, at);
        sources[at] = values[at];
    }
    for (unsigned at = 0; at <= COUNT; ++at) targets[at] = found[at];

    CHECK_EQUAL(mooncake_store_register_buffer(store, values, sizeof values), 0);
    CHECK_EQUAL(mooncake_store_register_buffer(store, values, sizeof values), -600);
    int put[COUNT] = {9, 9, 9};
    CHECK_EQUAL(mooncake_store_batch_put_from(store, keys, sources, sizes, COUNT, NULL, put), 0);
    for (unsigned at = 0; at < COUNT; ++at) CHECK_EQUAL(put[at], 0);
    CHECK_EQUAL(mooncake_store_unregister_buffer(store, values), 0);
    CHECK_EQUAL(mooncake_store_unregister_buffer(store, values), -600);

    int exist[COUNT + 1];
    CHECK_EQUAL(mooncake_store_batch_is_exist(store, keys, COUNT + 1, exist), 0);
    for (unsigned at = 0; at <= COUNT; ++at) CHECK_EQUAL(exist[at], at < COUNT);

    int64_t lengths[COUNT + 1];
    CHECK_EQUAL(
        mooncake_store_batch_get_into(store, keys, targets, sizes, COUNT + 1, lengths), 0);
    for (unsigned at = 0; at < COUNT; ++at) {
        CHECK_EQUAL(lengths[at], SIZE);
        CHECK(is_filled(found[at], SIZE, at));
    }
    CHECK_EQUAL(lengths[COUNT], -704);

    CHECK_EQUAL(mooncake_store_remove_by_regex(store, "^batch-[01]$", 1), 2);
    CHECK_EQUAL(mooncake_store_remove_all(store, 1), 1);
}

static void slices(mooncake_store_t store) {
    unsigned char value[600], found[600];
    fill(value, sizeof value, 5);
    mooncake_slice_t parts[3] = {{value, 100}, {NULL, 0}, {value + 100, 500}};
    CHECK_EQUAL(mooncake_store_put_slices(store, "sliced", parts, 3, NULL), 0);
    mooncake_slice_t places[2] = {{found, 350}, {found + 350, 250}};
    CHECK_EQUAL(mooncake_store_get_slices(store, "sliced", places, 2), 600);
    CHECK(is_filled(found, sizeof found, 5));
    CHECK_EQUAL(mooncake_store_get_slices(store, "sliced", places, 1), -600);
    CHECK_EQUAL(mooncake_store_remove(store, "sliced", 1), 0);
}

struct seen {
    const char *segment;
    unsigned objects, ranges;
    uint64_t bytes;
};

static void see(void *context, const mooncake_object_t *object) {
    struct seen *seen = context;
    seen->objects += 1;
    CHECK_EQUAL(strlen(object->key), object->key_size);
    CHECK(strncmp(object->key, "placed-", 7) == 0);
    for (size_t at = 0; at < object->ranges_count; ++at) {
        CHECK(strchr(object->ranges[at].endpoint, ':') != NULL);
        if (strcmp(object->ranges[at].segment, seen->segment) == 0) seen->ranges += 1;
        seen->bytes += object->ranges[at].size;
    }
}

/* One replica on the preferred segment, or one on each of the two segments. */
static void replicas(mooncake_store_t store, mooncake_store_t other) {
    char name[256], small[4];
    CHECK_EQUAL(mooncake_store_get_hostname(other, name, sizeof name), 0);
    CHECK(strncmp(name, "localhost:", 10) == 0);
    CHECK_EQUAL(mooncake_store_get_hostname(other, small, sizeof small), -600);
    const char *preferred[1] = {name};
    mooncake_replicate_config_t config = {0};
    config.preferred_segments = preferred;
    config.preferred_segments_count = 1;
    char value[100] = "value";
    for (unsigned at = 0; at < 20; ++at) {
        char key[32];
        snprintf(key, sizeof key, "placed-%u", at);
        CHECK_EQUAL(mooncake_store_put_from(store, key, value, sizeof value, &config), 0);
    }
    struct seen seen = {name, 0, 0, 0};
    CHECK_EQUAL(mooncake_store_query_by_regex(store, "^placed-", see, &seen), 20);
    CHECK_EQUAL(seen.objects, 20);
    CHECK_EQUAL(seen.ranges, 20);
    CHECK_EQUAL(seen.bytes, 20 * sizeof value);
    CHECK_EQUAL(mooncake_store_remove_by_regex(store, "^placed-", 1), 20);

    mooncake_replicate_config_t twice = {.replica_num = 2, .with_soft_pin = 1, .with_hard_pin = 1};
    CHECK_EQUAL(mooncake_store_put(store, "placed-twice", value, sizeof value, &twice), 0);
    seen = (struct seen){name, 0, 0, 0};
    CHECK_EQUAL(mooncake_store_query_by_regex(other, "^placed-twice$", see, &seen), 1);
    CHECK_EQUAL(seen.ranges, 1);
    CHECK_EQUAL(seen.bytes, 2 * sizeof value);
    CHECK_EQUAL(mooncake_store_remove_all(store, 1), 1);
}

/* No function takes a tenant: the environment names it. */
static void tenants(mooncake_store_t store, const char *master) {
    CHECK_EQUAL(mooncake_store_put(store, "name", "value", 5, NULL), 0);
    CHECK_EQUAL(setenv("MOONCAKE_TENANT_ID", "blue", 1), 0);
    mooncake_store_t blue = open_store(master, 0);
    CHECK_EQUAL(unsetenv("MOONCAKE_TENANT_ID"), 0);
    CHECK_EQUAL(mooncake_store_is_exist(blue, "name"), 0);
    CHECK_EQUAL(mooncake_store_put(blue, "name", "other", 5, NULL), 0);
    CHECK_EQUAL(mooncake_store_remove_all(blue, 1), 1);
    mooncake_store_destroy(blue);
    CHECK_EQUAL(mooncake_store_remove(store, "name", 1), 0);
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    mooncake_store_t store = open_store(argv[1], 16 * MIB), other = open_store(argv[1], 16 * MIB);
    one_object(store);
    batches(store);
    slices(store);
    replicas(store, other);
    tenants(store, argv[1]);
    mooncake_store_destroy(store);
    CHECK_EQUAL(mooncake_store_put(other, "later", "value", 5, NULL), 0);
    mooncake_store_destroy(other);

    /* A pool without a master, in this process. */
    mooncake_store_t alone = open_store("local://", 16 * MIB);
    one_object(alone);
    mooncake_store_destroy(alone);
    return 0;
}
