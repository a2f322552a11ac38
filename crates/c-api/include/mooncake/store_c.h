/*
 * Mooncake Store for C. Link with -lmooncake_store, or ask pkg-config for mooncake_store.
 *
 * The first part has the functions, arguments and numbers of the C++ package's header of the same name. The second
 * part is our own.
 *
 * Unless a function says otherwise, it returns 0 or a count for success, and a negative number for a failure.
 * mooncake_store_error_name() names numbers. A wrong argument (a null pointer, text that is not UTF-8, a size that is
 * larger than any memory) is -600, or -400 for a key, with a line in the log on standard error. MC_LOG_LEVEL selects
 * what is logged.
 *
 * Strings are UTF-8 and end with a zero byte. The library keeps no pointer of an argument after the call, except
 * registered memory. Many threads may use one store at once.
 */
#ifndef MOONCAKE_STORE_C_H
#define MOONCAKE_STORE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A store. The handle is no address. A handle that was destroyed is refused like any other wrong argument. */
typedef void *mooncake_store_t;

/* How a put stores an object. Where a function takes a pointer to it, null means the default: one replica, no pins. */
struct mooncake_replicate_config {
    size_t replica_num;              /* memory replicas, each on a segment of its own; 0 means 1 */
    int with_soft_pin;               /* not 0: kept while others can be evicted, until it was not used for a time */
    int with_hard_pin;               /* not 0: never evicted */
    const char **preferred_segments; /* the names of segments to try first */
    size_t preferred_segments_count;
};
typedef struct mooncake_replicate_config mooncake_replicate_config_t;

/* ---- Stores ---- */

/* Makes a store that is not set up. */
mooncake_store_t mooncake_store_create(void);

/* Closes the store, if it was set up, and ends the handle. Its memory leaves the pool. Null is ignored. */
void mooncake_store_destroy(mooncake_store_t store);

/*
 * Connects to a master, and lends global_segment_size bytes of this process to the pool.
 *
 * local_hostname      HOST or HOST:PORT of this process; without a port, a free one is taken
 * metadata_server     is not contacted; "P2PHANDSHAKE" if there is none
 * global_segment_size 0 to lend nothing, or at least 1024
 * local_buffer_size   0, or at least 1024; without a buffer, mooncake_store_put is refused
 * protocol            null means "tcp"
 * device_name         the NICs that "rdma" may use, with commas between them; all if it is null or empty
 * master_server_addr  HOST:PORT, the address of a coordinator like etcd://..., or local:// for a pool without a
 *                     master; null means "127.0.0.1:50051"
 *
 * Returns 0; -600 for a wrong argument or environment variable, or if the store is set up already; -1 if the master
 * cannot be reached, a port is taken, or for another reason that is in the log.
 */
int mooncake_store_setup(mooncake_store_t store, const char *local_hostname,
                         const char *metadata_server,
                         uint64_t global_segment_size,
                         uint64_t local_buffer_size, const char *protocol,
                         const char *device_name,
                         const char *master_server_addr);

/* Sets the store up for a trial on this host: the master at 127.0.0.1:50051, a local buffer of 1 GiB. */
int mooncake_store_init_all(mooncake_store_t store, const char *protocol,
                            const char *device_name,
                            uint64_t mount_segment_size);

/*
 * Returns 0 if the store works, 1 if it is not set up, 2 if the master did not answer the last ping, 3 if a thread of
 * this library has panicked.
 */
int mooncake_store_health_check(mooncake_store_t store);

/*
 * Writes HOST:PORT of the store, which is by default the name of its segment; "" before it is set up. -600 if it does
 * not fit into buf_len bytes with its zero byte.
 */
int mooncake_store_get_hostname(mooncake_store_t store, char *buf_out, size_t buf_len);

/* ---- Puts: a key that exists keeps its value, and the call returns 0 ---- */

/*
 * Puts the size bytes at value. Returns 0; -200 if the pool is full; -400 for a key that is empty or longer than 4096
 * bytes; -600 for an empty value; -800 if no node took the bytes; -900 or -901 if the master cannot be reached.
 */
int mooncake_store_put(mooncake_store_t store, const char *key,
                       const void *value, size_t size,
                       const mooncake_replicate_config_t *config);

/* As mooncake_store_put, without a local buffer. Memory of a GPU has to be registered. */
int mooncake_store_put_from(mooncake_store_t store, const char *key,
                            void *buffer, size_t size,
                            const mooncake_replicate_config_t *config);

/*
 * Puts count objects. Returns 0, with the result of each in results_out; another number only if an array is null or
 * count is above 1048576, and then results_out is unchanged.
 */
int mooncake_store_batch_put_from(mooncake_store_t store, const char **keys,
                                  void **buffers, const size_t *sizes,
                                  size_t count,
                                  const mooncake_replicate_config_t *config,
                                  int *results_out);

/* ---- Gets ---- */

/*
 * Reads the object into the size bytes at buffer. Returns its length; -704 if there is no such object; -703 if its put
 * has not ended; -600 if it is longer than size; -707 or -800 if no replica could be read.
 */
int64_t mooncake_store_get_into(mooncake_store_t store, const char *key,
                                void *buffer, size_t size);

/* Reads count objects. Returns as mooncake_store_batch_put_from, with a length or a negative number for each. */
int mooncake_store_batch_get_into(mooncake_store_t store, const char **keys,
                                  void **buffers, const size_t *sizes,
                                  size_t count, int64_t *results_out);

/* ---- Questions ---- */

/* Returns 1 if the object exists and is complete, 0 if not. Grants it a lease, as a read does. */
int mooncake_store_is_exist(mooncake_store_t store, const char *key);

/* Asks for count objects. Returns as mooncake_store_batch_put_from, with 1, 0 or a negative number for each. */
int mooncake_store_batch_is_exist(mooncake_store_t store, const char **keys,
                                  size_t count, int *results_out);

/* Returns the length of the object; -704 if there is none. */
int64_t mooncake_store_get_size(mooncake_store_t store, const char *key);

/* ---- Removals: force is not 0 to remove objects under a lease as well ---- */

/* Returns 0; -704 if there is no such object; -706 if it has a lease; -703 if its put has not ended. */
int mooncake_store_remove(mooncake_store_t store, const char *key, int force);

/* Removes the objects whose keys contain a match of the regular expression. Returns their number. */
int64_t mooncake_store_remove_by_regex(mooncake_store_t store,
                                       const char *pattern, int force);

/* Removes all objects. Returns their number. */
int64_t mooncake_store_remove_all(mooncake_store_t store, int force);

/* ---- Registered memory ---- */

/*
 * Registers memory, which stays mapped until mooncake_store_unregister_buffer; that of a GPU stays allocated. Host memory
 * may also be used without.
 * Returns -600 if it is empty, overlaps registered memory, or is neither of the host nor of a GPU.
 */
int mooncake_store_register_buffer(mooncake_store_t store, void *buffer, size_t size);

/* Ends the registration of the memory that starts at buffer. -600 if there is none. */
int mooncake_store_unregister_buffer(mooncake_store_t store, void *buffer);

/* ---- Beyond the C++ package ---- */

/* Memory of the caller. */
typedef struct mooncake_slice {
    void *buffer;
    size_t size;
} mooncake_slice_t;

/* Puts one object: the bytes of count slices, one after the other. Returns as mooncake_store_put_from. */
int mooncake_store_put_slices(mooncake_store_t store, const char *key,
                              const mooncake_slice_t *slices, size_t count,
                              const mooncake_replicate_config_t *config);

/* Reads one object into count slices, one after the other. Returns as mooncake_store_get_into. */
int64_t mooncake_store_get_slices(mooncake_store_t store, const char *key,
                                  const mooncake_slice_t *slices, size_t count);

/* A part of one replica of an object. */
typedef struct mooncake_range {
    const char *segment;  /* the name of the segment where it lies */
    const char *endpoint; /* HOST:PORT of the node that lends the segment */
    uint32_t replica;     /* the number of the replica */
    uint64_t offset;      /* where it begins in the segment */
    uint64_t size;
} mooncake_range_t;

/* An object, and where it lies: the ranges of each complete replica, in the order of the object's bytes. */
typedef struct mooncake_object {
    const char *key; /* ends with a zero byte, and may contain others: see key_size */
    size_t key_size;
    uint64_t size;
    const mooncake_range_t *ranges;
    size_t ranges_count;
} mooncake_object_t;

/* Is called for an object. Its pointers are valid during the call. It must not throw. */
typedef void (*mooncake_visit_t)(void *context, const mooncake_object_t *object);

/*
 * Calls visit, from the calling thread, for each object whose key contains a match of the regular expression. Grants
 * no leases. Returns the number of objects; -600 if the expression is refused, which the log explains.
 */
int64_t mooncake_store_query_by_regex(mooncake_store_t store, const char *pattern,
                                      mooncake_visit_t visit, void *context);

/* The name of a number that a function returned, like "OBJECT_NOT_FOUND" for -704. Never null; lives for ever. */
const char *mooncake_store_error_name(int number);

#ifdef __cplusplus
}
#endif

#endif
