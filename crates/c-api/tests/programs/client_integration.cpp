// Two clients in C++ on one pool: client_integration MASTER
#include <cstring>
#include <numeric>
#include <thread>

#include "check.h"
#include "client.hpp"

using mooncake::Client;
using mooncake::ErrorCode;
using mooncake::ReplicateConfig;
using mooncake::Slice;

namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;

#define CHECK_OK(expected)                                                               \
    do {                                                                                 \
        const auto &result_ = (expected);                                                \
        if (!result_) {                                                                  \
            fprintf(stderr, "FAILED %s:%d: %s: %s\n", __FILE__, __LINE__, #expected,     \
                    mooncake::toString(result_.error()));                                \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

Client opened(const char *master, std::uint64_t segment) {
    Client client({segment, 0});
    CHECK(client.Init("localhost", "P2PHANDSHAKE", "tcp", nullptr, master) == ErrorCode::OK);
    return client;
}

std::string hostname(const Client &client) {
    char name[256];
    CHECK_EQUAL(mooncake_store_get_hostname(client.handle(), name, sizeof name), 0);
    return name;
}

// Bytes that depend on the key and on the position.
std::string bytes_of(const std::string &key, std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t at = 0; at < size; ++at) {
        bytes[at] = static_cast<char>(key[at % key.size()] + at / 7 + at / 4099);
    }
    return bytes;
}

void put(Client &client, const std::string &key, std::size_t size, ReplicateConfig config = {}) {
    std::string value = bytes_of(key, size);
    std::vector<Slice> slices{{value.data(), value.size()}};
    CHECK_OK(client.Put(key, slices, config));
}

void check_reads(Client &client, const std::string &key, std::size_t size) {
    std::string found(size, '?');
    std::vector<Slice> slices{{found.data(), found.size()}};
    CHECK_OK(client.Get(key, slices));
    CHECK(found == bytes_of(key, size));
}

ErrorCode error_of_get(Client &client, const std::string &key) {
    std::string found(100, '?');
    std::vector<Slice> slices{{found.data(), found.size()}};
    const auto result = client.Get(key, slices);
    return result ? ErrorCode::OK : result.error();
}

void an_object_is_put_read_and_removed(Client &writer, Client &reader) {
    CHECK(error_of_get(reader, "basic") == ErrorCode::OBJECT_NOT_FOUND);
    put(writer, "basic", 5000);
    check_reads(reader, "basic", 5000);
    check_reads(writer, "basic", 5000);
    // A key that exists keeps its value.
    std::string other = "other";
    std::vector<Slice> slices{{other.data(), other.size()}};
    CHECK_OK(writer.Put("basic", slices, {}));
    check_reads(reader, "basic", 5000);
    const auto removed = writer.Remove("basic");
    CHECK(!removed && removed.error() == ErrorCode::OBJECT_HAS_LEASE);
    CHECK_EQUAL(mooncake_store_remove(writer.handle(), "basic", 1), 0);
    CHECK(error_of_get(reader, "basic") == ErrorCode::OBJECT_NOT_FOUND);
    CHECK(writer.Remove("basic").error() == ErrorCode::OBJECT_NOT_FOUND);
    put(writer, "unread", 100);
    CHECK_OK(reader.Remove("unread"));
}

void an_object_is_gathered_and_scattered(Client &writer, Client &reader) {
    std::string value = bytes_of("sliced", 3 * kMebibyte);
    std::vector<Slice> parts{{value.data(), 10}, {value.data() + 10, value.size() - 10}};
    CHECK_OK(writer.RegisterLocalMemory(value.data(), value.size()));
    CHECK_OK(writer.Put("sliced", parts, {}));
    CHECK_OK(writer.UnregisterLocalMemory(value.data()));
    CHECK(!writer.UnregisterLocalMemory(value.data()));
    std::vector<std::string> found(3, std::string(kMebibyte, '?'));
    std::vector<Slice> places;
    for (std::string &part : found) places.push_back({part.data(), part.size()});
    CHECK_OK(reader.Get("sliced", places));
    CHECK(found[0] + found[1] + found[2] == value);
    places.pop_back();
    CHECK(reader.Get("sliced", places).error() == ErrorCode::INVALID_PARAMS);
    CHECK_EQUAL(mooncake_store_remove(writer.handle(), "sliced", 1), 0);
}

void objects_lie_where_a_client_prefers(Client &writer, Client &other) {
    ReplicateConfig config;
    config.preferred_segment = hostname(other);
    for (int at = 0; at < 10; ++at) put(writer, "local-" + std::to_string(at), 1000, config);
    put(writer, "elsewhere", 1000);
    auto found = writer.QueryByRegex("^local-");
    CHECK_OK(found);
    CHECK_EQUAL(found->size(), 10);
    for (const auto &[key, replicas] : *found) {
        CHECK(key.rfind("local-", 0) == 0);
        CHECK_EQUAL(replicas.size(), 1);
        CHECK_EQUAL(replicas[0].size(), 1000);
        CHECK(replicas[0].handles[0].segment_name == config.preferred_segment);
    }
    const auto removed = writer.RemoveByRegex("^local-");
    CHECK_OK(removed);
    CHECK_EQUAL(*removed, 10);
    CHECK_EQUAL(writer.QueryByRegex("^local-").value().size(), 0);
    CHECK_EQUAL(writer.QueryByRegex(".").value().size(), 1);
    CHECK(writer.QueryByRegex("(").error() == ErrorCode::INVALID_PARAMS);
    CHECK(writer.RemoveByRegex("(").error() == ErrorCode::INVALID_PARAMS);
    CHECK_OK(writer.Remove("elsewhere"));
}

void replicas_lie_on_different_segments(Client &writer, Client &reader) {
    ReplicateConfig config;
    config.replica_num = 2;
    config.with_soft_pin = true;
    put(writer, "twice", 2000, config);
    auto found = reader.QueryByRegex("^twice$").value();
    CHECK_EQUAL(found["twice"].size(), 2);
    CHECK(found["twice"][0].handles[0].segment_name != found["twice"][1].handles[0].segment_name);
    check_reads(reader, "twice", 2000);
    CHECK_EQUAL(mooncake_store_remove_all(writer.handle(), 1), 1);
}

void a_full_pool_refuses_or_evicts(Client &writer) {
    // Hard pins are never evicted, so the pool fills up.
    ReplicateConfig pinned;
    pinned.with_hard_pin = true;
    std::string value = bytes_of("pinned", kMebibyte);
    std::vector<Slice> slices{{value.data(), value.size()}};
    int count = 0;
    for (; count < 100; ++count) {
        const auto result = writer.Put("pinned-" + std::to_string(count), slices, pinned);
        if (result) continue;
        CHECK(result.error() == ErrorCode::NO_AVAILABLE_HANDLE);
        break;
    }
    CHECK(count > 10 && count < 100);
    CHECK_EQUAL(mooncake_store_remove_all(writer.handle(), 1), count);
    // Objects without pins make room for new ones.
    for (int at = 0; at < 100; ++at) put(writer, "evicted-" + std::to_string(at), kMebibyte);
    CHECK(mooncake_store_remove_all(writer.handle(), 1) < 100);
}

void many_threads_use_one_client(Client &client) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&client, thread] {
            for (int at = 0; at < 25; ++at) {
                const std::string key = std::to_string(thread) + "-" + std::to_string(at);
                put(client, key, 3000);
                check_reads(client, key, 3000);
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    CHECK_EQUAL(mooncake_store_remove_all(client.handle(), 1), 100);
}

void wrong_arguments_are_errors(Client &client, const char *master) {
    std::vector<Slice> nothing, nowhere{{nullptr, 5}};
    CHECK(client.Put("key", nothing, {}).error() == ErrorCode::INVALID_PARAMS);
    CHECK(client.Put("key", nowhere, {}).error() == ErrorCode::INVALID_PARAMS);
    CHECK(client.Get("key", nowhere).error() == ErrorCode::INVALID_PARAMS);
    std::string value = "value";
    std::vector<Slice> slices{{value.data(), value.size()}};
    CHECK(client.Put("", slices, {}).error() == ErrorCode::INVALID_KEY);
    CHECK(client.Put(std::string("a\0b", 3), slices, {}).error() == ErrorCode::INVALID_KEY);
    ReplicateConfig none;
    none.replica_num = 0;
    CHECK(client.Put("key", slices, none).error() == ErrorCode::INVALID_PARAMS);
    CHECK(client.Init("localhost", "", "tcp", nullptr, master) == ErrorCode::INVALID_PARAMS);
    Client closed;
    CHECK(closed.Put("key", slices, {}).error() == ErrorCode::INVALID_PARAMS);
    CHECK(closed.Init("localhost", "", "carrier", nullptr, master) == ErrorCode::INVALID_PARAMS);
    bool threw = false;
    try {
        closed.Remove("key").value();
    } catch (const std::runtime_error &error) {
        threw = std::strcmp(error.what(), "INVALID_PARAMS") == 0;
    }
    CHECK(threw);
    CHECK_EQUAL(client.RemoveByRegex("(").value_or(7), 7);
    // A client that was moved from is closed.
    Client moved = std::move(closed);
    CHECK(closed.Remove("key").error() == ErrorCode::INVALID_PARAMS);
}

}  // namespace

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    Client writer = opened(argv[1], 16 * kMebibyte), reader = opened(argv[1], 16 * kMebibyte);
    an_object_is_put_read_and_removed(writer, reader);
    an_object_is_gathered_and_scattered(writer, reader);
    objects_lie_where_a_client_prefers(writer, reader);
    replicas_lie_on_different_segments(writer, reader);
    a_full_pool_refuses_or_evicts(writer);
    many_threads_use_one_client(reader);
    wrong_arguments_are_errors(writer, argv[1]);
    return 0;
}
