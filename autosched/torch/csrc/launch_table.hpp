// Table that maps the signature of a call to its launch. Look-ups need no lock; additions are rare.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "driver.hpp"

namespace autosched::host {

using Word = std::uint64_t;

// A parameter of a kernel: the address of an array of the call, a tensor map of an array, or constant bytes.
struct Parameter {
  enum class Kind : Word { address, tensor_map, value };
  Kind kind;
  std::size_t array;             // index among the call's tensors, outputs last
  std::vector<std::byte> bytes;  // bytes of the tensor map, or of the constant
  void* encoded_address;         // the array's address as the bytes of the tensor map encode it
};

struct Step {
  void* function;
  LaunchConfig config;
  std::vector<LaunchAttribute> attributes;
  std::vector<Parameter> parameters;
  Word launches;
};

struct Output {
  std::vector<std::int64_t> sizes, strides;
  std::int32_t dtype, device_type, device;
};

struct Entry {
  // by_stream: the launch also depends on stream and thread, so each pair has its own entry. python: the call always
  // runs in Python.
  enum class Kind { launch, by_stream, python };
  Kind kind = Kind::launch;
  std::vector<Word> key;
  std::string awaited;  // if not empty: once a file exists at this path, the call must select its kernel again
  void* context = nullptr;
  std::vector<Step> steps;
  std::vector<Output> outputs;
};

inline Word hash_of(const Word* words, std::size_t count) {
  Word hash = count;
  for (std::size_t i = 0; i < count; ++i) {
    hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

// Counts threads that may use an entry. Threads use different cells, so that they do not share cache lines.
class Readers {
  struct alignas(64) Cell {
    std::atomic<int> inside{0};
    std::atomic<Word> counted{0};
  };

 public:
  class Guard {
   public:
    explicit Guard(Readers& readers) : cell_(readers.cells_[cell_number()]) { cell_.inside.fetch_add(1); }
    ~Guard() { cell_.inside.fetch_sub(1); }
    void count() const { cell_.counted.fetch_add(1, std::memory_order_relaxed); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Cell& cell_;
  };

  Word counted() const {
    Word sum = 0;
    for (const Cell& cell : cells_) sum += cell.counted.load();
    return sum;
  }

  // Returns when all guards that were created before this call have been destroyed. Later guards cannot see entries
  // that are already unpublished, so it is sufficient to see each cell empty once.
  void wait() const {
    for (const Cell& cell : cells_) {
      while (cell.inside.load() != 0) sched_yield();
    }
  }

 private:
  static constexpr std::size_t cell_count = 64;
  static std::size_t cell_number() {
    static std::atomic<std::size_t> next{0};
    thread_local const std::size_t mine = next.fetch_add(1) % cell_count;
    return mine;
  }
  Cell cells_[cell_count];
};

class LaunchTable {
 public:
  LaunchTable() : slots_(new Slots(first_size)) {}

  Readers readers;

  // Must be called within a Readers::Guard, which keeps the entry alive.
  const Entry* find(const Word* words, std::size_t count) const {
    const Slots& slots = *slots_.load();
    for (std::size_t i = hash_of(words, count);; ++i) {
      const Entry* entry = slots.at[i & slots.mask].load(std::memory_order_acquire);
      if (entry == nullptr) return nullptr;
      if (entry->key.size() == count && std::equal(words, words + count, entry->key.begin())) return entry;
    }
  }

  // Number to pass to `add`. Call this before the entry is created, so that `add` notices a `clear` in between.
  Word generation() const { return generation_.load(); }

  // Publishes an entry, replacing one with the same key, unless the table was cleared after `generation`.
  void add(std::unique_ptr<const Entry> entry, Word generation) {
    const std::lock_guard lock(writer_);
    if (generation != generation_.load()) return;
    if (2 * (count_ + 1) > slots_.load()->mask + 1) grow();
    std::atomic<const Entry*>& slot = free_or_same(*slots_.load(), *entry);
    const Entry* old = slot.exchange(entry.release());
    if (old == nullptr) {
      ++count_;
    } else {
      readers.wait();
      delete old;
    }
  }

  // Returns when no thread uses any entry any more. Modules may then be unloaded.
  void clear() {
    const std::lock_guard lock(writer_);
    ++generation_;
    Slots* old = slots_.exchange(new Slots(first_size));
    readers.wait();
    for (std::size_t i = 0; i <= old->mask; ++i) delete old->at[i].load();
    delete old;
    count_ = 0;
  }

 private:
  static constexpr std::size_t first_size = 256;  // number of buckets, a power of two
  struct Slots {
    explicit Slots(std::size_t size) : mask(size - 1), at(new std::atomic<const Entry*>[size]()) {}
    std::size_t mask;
    std::unique_ptr<std::atomic<const Entry*>[]> at;
  };

  static std::atomic<const Entry*>& free_or_same(const Slots& slots, const Entry& entry) {
    for (std::size_t i = hash_of(entry.key.data(), entry.key.size());; ++i) {
      std::atomic<const Entry*>& slot = slots.at[i & slots.mask];
      const Entry* existing = slot.load();
      if (existing == nullptr || existing->key == entry.key) return slot;
    }
  }

  void grow() {
    Slots* old = slots_.load();
    auto* larger = new Slots(2 * (old->mask + 1));
    for (std::size_t i = 0; i <= old->mask; ++i) {
      if (const Entry* entry = old->at[i].load()) free_or_same(*larger, *entry).store(entry);
    }
    slots_.store(larger);
    readers.wait();
    delete old;
  }

  std::atomic<Slots*> slots_;
  std::atomic<Word> generation_{0};
  std::mutex writer_;
  std::size_t count_ = 0;
};

}  // namespace autosched::host
