// Mooncake Store for C++17, on top of store_c.h. Link with -lmooncake_store.
//
// A Client puts and gets objects. Its calls return an Expected: a value, or an ErrorCode. Nothing here throws, except
// Expected::value() of an error, and std::bad_alloc.
#ifndef MOONCAKE_CLIENT_HPP
#define MOONCAKE_CLIENT_HPP

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store_c.h"

namespace mooncake {

using ObjectKey = std::string;

// The errors that calls of a store meet. A number without a name here keeps its value; toString() knows all of them.
enum class ErrorCode : std::int32_t {
    OK = 0,
    INTERNAL_ERROR = -1,
    NO_AVAILABLE_HANDLE = -200,
    INVALID_KEY = -400,
    INVALID_PARAMS = -600,
    REPLICA_IS_NOT_READY = -703,
    OBJECT_NOT_FOUND = -704,
    OBJECT_ALREADY_EXISTS = -705,
    OBJECT_HAS_LEASE = -706,
    LEASE_EXPIRED = -707,
    TRANSFER_FAIL = -800,
    RPC_FAIL = -900,
    RPC_TIMEOUT = -901,
};

inline const char *toString(ErrorCode code) {
    return mooncake_store_error_name(static_cast<int>(code));
}

inline std::ostream &operator<<(std::ostream &out, ErrorCode code) {
    return out << toString(code);
}

// An error, on its way into an Expected.
struct Unexpected {
    ErrorCode code;
};

// A value or an error.
template <typename T>
class Expected {
   public:
    Expected(T value) : value_(std::move(value)) {}
    Expected(Unexpected error) : code_(error.code) {}

    bool has_value() const { return value_.has_value(); }
    explicit operator bool() const { return has_value(); }
    ErrorCode error() const { return code_; }

    // Throws std::runtime_error for an error.
    T &value() & {
        check();
        return *value_;
    }
    const T &value() const & {
        check();
        return *value_;
    }
    T &&value() && {
        check();
        return std::move(*value_);
    }

    // For a value only.
    T &operator*() & { return *value_; }
    const T &operator*() const & { return *value_; }
    T *operator->() { return &*value_; }
    const T *operator->() const { return &*value_; }

    T value_or(T other) const { return has_value() ? *value_ : std::move(other); }

   private:
    void check() const {
        if (!has_value()) throw std::runtime_error(toString(code_));
    }

    std::optional<T> value_;
    ErrorCode code_ = ErrorCode::OK;
};

// Success or an error.
template <>
class Expected<void> {
   public:
    Expected() = default;
    Expected(Unexpected error) : code_(error.code) {}

    bool has_value() const { return code_ == ErrorCode::OK; }
    explicit operator bool() const { return has_value(); }
    ErrorCode error() const { return code_; }

    // Throws std::runtime_error for an error.
    void value() const {
        if (!has_value()) throw std::runtime_error(toString(code_));
    }

   private:
    ErrorCode code_ = ErrorCode::OK;
};

// Memory of the caller.
struct Slice {
    void *ptr = nullptr;
    std::size_t size = 0;
};

// How a put stores an object.
struct ReplicateConfig {
    std::size_t replica_num{1};       // memory replicas, each on a segment of its own
    bool with_soft_pin{false};        // kept while others can be evicted, until it was not used for a time
    bool with_hard_pin{false};        // never evicted
    std::string preferred_segment{};  // the name of the segment to try first
};

struct Replica {
    // A part of a replica.
    struct Handle {
        std::string segment_name;  // where it lies
        std::string endpoint;      // HOST:PORT of the node that lends the segment
        std::uint64_t offset = 0;  // where it begins in the segment
        std::uint64_t size = 0;
    };

    // A complete replica: its parts in the order of the object's bytes.
    struct Descriptor {
        std::uint32_t number = 0;
        std::vector<Handle> handles;

        std::uint64_t size() const {
            std::uint64_t sum = 0;
            for (const Handle &handle : handles) sum += handle.size;
            return sum;
        }
    };
};

// What a client lends, and what it sets aside.
struct ClientOptions {
    std::uint64_t global_segment_size = 0;  // bytes that it lends to the pool
    std::uint64_t local_buffer_size = 0;    // bytes for mooncake_store_put; the calls below need none
};

// A client of the pool. It leaves the pool when it is destroyed. Many threads may use one client at once.
class Client {
   public:
    explicit Client(ClientOptions options = {})
        : store_(mooncake_store_create()), options_(options) {}
    ~Client() { mooncake_store_destroy(store_); }

    Client(Client &&other) noexcept
        : store_(std::exchange(other.store_, nullptr)), options_(other.options_) {}
    Client &operator=(Client &&other) noexcept {
        std::swap(store_, other.store_);
        std::swap(options_, other.options_);
        return *this;
    }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;

    // Connects to the master at master_server_entry; see mooncake_store_setup. protocol_args may be null; its first
    // item names a device, which has no effect.
    ErrorCode Init(const std::string &local_hostname, const std::string &metadata_connstring,
                   const std::string &protocol, void **protocol_args,
                   const std::string &master_server_entry) {
        const void *device = protocol_args == nullptr ? nullptr : protocol_args[0];
        const int code = mooncake_store_setup(
            store_, local_hostname.c_str(), metadata_connstring.c_str(),
            options_.global_segment_size, options_.local_buffer_size, protocol.c_str(),
            static_cast<const char *>(device), master_server_entry.c_str());
        return static_cast<ErrorCode>(code);
    }

    // Reads the object into the slices, one after the other. Together they must have room for all of it.
    Expected<void> Get(const ObjectKey &key, std::vector<Slice> &slices) {
        if (!fits(key)) return Unexpected{ErrorCode::INVALID_KEY};
        const auto list = listed(slices);
        const std::int64_t length =
            mooncake_store_get_slices(store_, key.c_str(), list.data(), list.size());
        return length < 0 ? failed(length) : Expected<void>();
    }

    // Puts the bytes of the slices, one after the other, as one object. A key that exists keeps its value.
    Expected<void> Put(const ObjectKey &key, std::vector<Slice> &slices,
                       const ReplicateConfig &config = {}) {
        if (!fits(key)) return Unexpected{ErrorCode::INVALID_KEY};
        if (config.replica_num == 0) return Unexpected{ErrorCode::INVALID_PARAMS};
        const char *preferred = config.preferred_segment.c_str();
        mooncake_replicate_config_t wanted{};
        wanted.replica_num = config.replica_num;
        wanted.with_soft_pin = config.with_soft_pin;
        wanted.with_hard_pin = config.with_hard_pin;
        if (!config.preferred_segment.empty()) {
            wanted.preferred_segments = &preferred;
            wanted.preferred_segments_count = 1;
        }
        const auto list = listed(slices);
        return done(
            mooncake_store_put_slices(store_, key.c_str(), list.data(), list.size(), &wanted));
    }

    // Removes the object, unless a client may be reading it: then the error is OBJECT_HAS_LEASE.
    Expected<void> Remove(const ObjectKey &key) {
        if (!fits(key)) return Unexpected{ErrorCode::INVALID_KEY};
        return done(mooncake_store_remove(store_, key.c_str(), 0));
    }

    // The replicas of all objects whose keys contain a match of the regular expression.
    Expected<std::unordered_map<ObjectKey, std::vector<Replica::Descriptor>>> QueryByRegex(
        const std::string &pattern) {
        if (!fits(pattern)) return Unexpected{ErrorCode::INVALID_PARAMS};
        Found found;
        const std::int64_t count =
            mooncake_store_query_by_regex(store_, pattern.c_str(), &Found::visit, &found);
        if (count < 0) return failed(count);
        if (found.is_out_of_memory) throw std::bad_alloc();
        return std::move(found.replicas);
    }

    // Removes the objects whose keys contain a match, except those that a client may be reading. Their number.
    Expected<long> RemoveByRegex(const std::string &pattern) {
        if (!fits(pattern)) return Unexpected{ErrorCode::INVALID_PARAMS};
        const std::int64_t count = mooncake_store_remove_by_regex(store_, pattern.c_str(), 0);
        if (count < 0) return failed(count);
        return static_cast<long>(count);
    }

    // Registers memory that slices point into, until UnregisterLocalMemory. Memory of the host needs it not.
    Expected<void> RegisterLocalMemory(void *address, std::size_t length) {
        return done(mooncake_store_register_buffer(store_, address, length));
    }

    Expected<void> UnregisterLocalMemory(void *address) {
        return done(mooncake_store_unregister_buffer(store_, address));
    }

    // The store, for the functions of store_c.h. It lives as long as the client.
    mooncake_store_t handle() const { return store_; }

   private:
    // What a query has found.
    struct Found {
        std::unordered_map<ObjectKey, std::vector<Replica::Descriptor>> replicas;
        bool is_out_of_memory = false;

        // No exception may leave this function.
        static void visit(void *context, const mooncake_object_t *object) noexcept {
            Found &found = *static_cast<Found *>(context);
            try {
                found.add(*object);
            } catch (...) {
                found.is_out_of_memory = true;
            }
        }

        void add(const mooncake_object_t &object) {
            auto &list = replicas[ObjectKey(object.key, object.key_size)];
            for (std::size_t at = 0; at < object.ranges_count; ++at) {
                const mooncake_range_t &range = object.ranges[at];
                if (list.empty() || list.back().number != range.replica) {
                    list.push_back({range.replica, {}});
                }
                list.back().handles.push_back(
                    {range.segment, range.endpoint, range.offset, range.size});
            }
        }
    };

    // Whether the text can pass through C, where a zero byte ends it.
    static bool fits(const std::string &text) { return text.find('\0') == std::string::npos; }

    static std::vector<mooncake_slice_t> listed(const std::vector<Slice> &slices) {
        std::vector<mooncake_slice_t> list;
        list.reserve(slices.size());
        for (const Slice &slice : slices) list.push_back({slice.ptr, slice.size});
        return list;
    }

    static Unexpected failed(std::int64_t number) {
        return Unexpected{static_cast<ErrorCode>(number)};
    }

    static Expected<void> done(int number) {
        return number < 0 ? Expected<void>(failed(number)) : Expected<void>();
    }

    mooncake_store_t store_;
    ClientOptions options_;
};

}  // namespace mooncake

#endif
