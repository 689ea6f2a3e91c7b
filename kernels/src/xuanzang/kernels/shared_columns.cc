#include "shared_columns.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace xuanzang {
namespace {

// Mappings begin at whole pages, of 64 KiB on some systems; the gaps between blocks are never read.
constexpr size_t kAlignment = 65536;

bool write_all(int descriptor, const int8_t* bytes, size_t count, size_t position) {
  while (count) {
    const ssize_t written = pwrite(descriptor, bytes, count, static_cast<off_t>(position));
    if (written <= 0) return false;
    bytes += written, position += static_cast<size_t>(written), count -= static_cast<size_t>(written);
  }
  return true;
}

// Maps pages of a file, or of none; null if that fails.
std::shared_ptr<int8_t> mapped(size_t count, int protection, int flags, int descriptor, size_t position) {
  void* const where = mmap(nullptr, count, protection, flags, descriptor, static_cast<off_t>(position));
  if (where == MAP_FAILED) return nullptr;
  return {static_cast<int8_t*>(where), [count](int8_t* pages) { munmap(pages, count); }};
}

}  // namespace

std::shared_ptr<int8_t> own_pages(size_t count) {
  if (!count) return nullptr;
  auto pages = mapped(count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!pages) throw std::bad_alloc();
  return pages;
}

std::shared_ptr<const int8_t> SharedColumns::placed(std::shared_ptr<const int8_t> bytes, size_t count) {
  auto same = descriptor_ < 0 ? nullptr : in_file(bytes.get(), count);
  const bool is_of_file = same != nullptr;
  has_all_ = has_all_ && is_of_file;
  blocks_.push_back({is_of_file ? std::move(same) : std::move(bytes), count, is_of_file});
  return blocks_.back().bytes;
}

// Returns where the file has a block; null if it has it nowhere and cannot be written.
std::shared_ptr<const int8_t> SharedColumns::in_file(const int8_t* bytes, size_t count) {
  const size_t position = position_;
  position_ = (position + count + kAlignment - 1) / kAlignment * kAlignment;
  struct stat state;
  if (fstat(descriptor_, &state)) return nullptr;
  const size_t size = static_cast<size_t>(state.st_size);
  if (size <= position && !write_all(descriptor_, bytes, count, position)) return nullptr;
  if (auto block = same_at(position, bytes, count)) return block;
  // Other graphs on the same weights pack some of them, in an order of their own.
  for (size_t other = 0; other + count <= size; other += kAlignment) {
    if (auto block = same_at(other, bytes, count)) return block;
  }
  return nullptr;
}

// Returns the block at a position of the file; null if it has other bytes there.
std::shared_ptr<const int8_t> SharedColumns::same_at(size_t position, const int8_t* bytes, size_t count) const {
  int8_t head[64];
  const size_t some = std::min(count, sizeof head);
  if (pread(descriptor_, head, some, static_cast<off_t>(position)) != static_cast<ssize_t>(some)) return nullptr;
  struct stat state;
  if (std::memcmp(head, bytes, some) || fstat(descriptor_, &state)) return nullptr;
  // Reading a mapping behind the end of its file ends the process.
  if (static_cast<size_t>(state.st_size) < position + count) return nullptr;
  auto block = mapped(count, PROT_READ, MAP_SHARED, descriptor_, position);
  // Existing content is compared, so its writer need not be trusted.
  return block && !std::memcmp(block.get(), bytes, count) ? block : nullptr;
}

void SharedColumns::finish() {
  for (const auto& call : waiting_) call(blocks_);
  waiting_.clear();
}

void SharedColumns::release() const {
  for (const Block& block : blocks_) {
    if (block.is_of_file) madvise(const_cast<int8_t*>(block.bytes.get()), block.count, MADV_DONTNEED);
  }
}

}  // namespace xuanzang
